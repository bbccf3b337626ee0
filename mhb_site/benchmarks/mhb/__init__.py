"""MHB: adversarial traps in conversations and reports, with rubrics. See README.md."""
