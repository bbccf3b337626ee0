"""Environment variables from which tests may take endpoint keys."""

from generation.llm.http.access import Access

ACCESS = Access(
    keys=dict.fromkeys(("OWN_KEY", "OWN_KEY_THAT_IS_NOT_SET", "OWN_TEST_KEY", "HOUSE_KEY", "MHB_TEST_KEY"), ())
)
