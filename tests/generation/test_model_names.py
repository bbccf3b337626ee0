"""Several names of one model are recognised, and models with similar names are told apart."""

import pytest

from generation.common.model_names import canonical_model_name

SAME_MODEL = (
    ("gpt-5", "gpt-5-2025-08-07", "openai/GPT-5", "gpt-5-latest"),
    ("gpt-4", "gpt-4-0613", "gpt-4-1106-preview", "gpt-4-0125-preview"),
    ("claude-3-5-sonnet", "anthropic/claude-3.5-sonnet", "claude-3-5-sonnet@20240620", "claude-3-5-sonnet-latest"),
    ("gemini-2.5-pro", "gemini-2.5-pro-preview-05-06", "google/gemini-2.5-pro-exp-03-25", "models/gemini-2.5-pro-001"),
    ("mistral-large", "mistral-large-2411", "mistral-large-latest"),
    ("command-r", "command-r-08-2024"),
    ("deepseek-r1", "deepseek/deepseek-r1:free", "deepseek-r1-0528"),
)
DIFFERENT_MODELS = (
    ("gpt-5", "gpt-5-mini", "gpt-5.1", "gpt-4.1", "gpt-4o-2024-08-06"),
    ("llama-3.1-8b-instruct", "llama-3.1-70b-instruct", "llama-3.3-70b-instruct"),
    ("o1", "o1-preview", "o3"),
    ("yi-34b-200k", "yi-34b"),
    ("2024-05-13", "0613", ""),
)


@pytest.mark.parametrize("names", SAME_MODEL)
def test_names_of_one_model_have_one_canonical_name(names: tuple[str, ...]) -> None:
    assert len(set(map(canonical_model_name, names))) == 1, [canonical_model_name(name) for name in names]


@pytest.mark.parametrize("names", DIFFERENT_MODELS)
def test_different_models_keep_different_names(names: tuple[str, ...]) -> None:
    assert len(set(map(canonical_model_name, names))) == len(names), [canonical_model_name(name) for name in names]
