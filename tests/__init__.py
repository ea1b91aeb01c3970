"""The tests; a package, so that an environment of theirs has a name that can be imported anywhere."""
