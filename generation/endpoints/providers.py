"""Presets of the endpoint form: what providers' addresses and settings look like."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Provider:
    """What differs at a provider or a server.

    `url`: the pattern of its base URL, with what to replace in <>. `settings`: initial values of
    an endpoint. Names are those of products and not translated.
    """

    name: str
    label: str
    url: str
    key_env: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def initial(self) -> dict[str, Any]:
        """Initial values of the endpoint form."""
        return {"url": self.url, "key_env": self.key_env, **self.settings}


LOCAL = {"concurrency": 1, "timeout": 600}
PROVIDERS = (
    Provider("openai", "OpenAI", "https://api.openai.com/v1", "MHB_KEY_OPENAI", {"batches": True}),
    Provider("azure", "Azure OpenAI", "https://<resource>.openai.azure.com/openai/v1", "MHB_KEY_AZURE"),
    Provider("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "MHB_KEY_OPENROUTER"),
    Provider("anthropic", "Anthropic", "https://api.anthropic.com/v1", "MHB_KEY_ANTHROPIC", {"max_tokens": 4096}),
    Provider(
        "gemini",
        "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "MHB_KEY_GEMINI",
    ),
    Provider("mistral", "Mistral", "https://api.mistral.ai/v1", "MHB_KEY_MISTRAL"),
    Provider("deepseek", "DeepSeek", "https://api.deepseek.com/v1", "MHB_KEY_DEEPSEEK"),
    Provider("groq", "Groq", "https://api.groq.com/openai/v1", "MHB_KEY_GROQ"),
    Provider("together", "Together", "https://api.together.xyz/v1", "MHB_KEY_TOGETHER"),
    Provider("vllm", "vLLM, SGLang", "http://<host>:8000/v1"),
    Provider("llamacpp", "llama.cpp", "http://<host>:8080/v1", settings=LOCAL),
    Provider("ollama", "Ollama", "http://<host>:11434/v1", settings=LOCAL),
    Provider("litellm", "LiteLLM", "http://<host>:4000/v1", "MHB_KEY_PROXY"),
)
BY_NAME = {provider.name: provider for provider in PROVIDERS}
