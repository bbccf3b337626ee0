"""Programs that go out with an export. They are data here: the tools that run them are not installed with MHB."""
