"""Programs that go out with a bundle. They are data here: whoever has the bundle runs them without MHB."""
