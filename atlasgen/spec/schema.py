"""Print the JSON schema of rule files: `python -m atlasgen.spec.schema > specs/schema.json`."""

from atlasgen.spec.load import schema_text

if __name__ == "__main__":
    print(schema_text(), end="")
