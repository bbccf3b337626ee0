"""Programs that go out with a bundle. They are data here: people with the bundle run them without MHB."""
