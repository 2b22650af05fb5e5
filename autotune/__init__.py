"""Search spaces, tuning studies and the shipped tuned configurations."""
