"""Kernel packages built from specs/ by `atlasgen build`: one package per shipped rule."""
