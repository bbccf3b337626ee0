"""Programs that are shipped in bundles, as data. People with a bundle run them without MHB."""
