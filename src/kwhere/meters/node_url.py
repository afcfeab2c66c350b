"""Addresses that hold the node's name: `https://{node}-bmc.example`."""

import re
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kwhere.core.errors import Unavailable
from kwhere.transport.secret_names import names_secret

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"\{([A-Za-z_]*)\}")
"""A placeholder within a question; other braces there are the question's own, as PromQL has them."""
_AS_IT_IS = "%!$&'()*,;=:@/?-._~[]"
"""No `+`: services take it for a space, and who wrote it means a sum."""
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
"""A remainder as PromQL has it, no escape."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_KNOWN = ("node", "short", "name")
_SPECIMEN = "node-1"


def check_placeholders(value: str) -> None:
    """Raise ValueError for a placeholder that does not stand for a name of the node."""
    for name in _PLACEHOLDER.findall(value):
        if name not in _KNOWN:
            raise ValueError(f"expected {{node}}, {{short}} or {{name}}, found {{{name}}}")


def check_template(value: str) -> str:
    """Return an address with placeholders as it is. Raises ValueError: no address, a user, password or token in it."""
    check_placeholders(value)
    url = _PLACEHOLDER.sub(_SPECIMEN, value)
    if "{" in url or "}" in url:
        raise ValueError("expected every { to be closed by }")
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("user and password belong in a file, not in an address")
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii() or " " in url:
        raise ValueError("expected http:// or https:// and a host")
    _check_secrets(parts.query)
    return value


def _check_secrets(query: str) -> None:
    for pair in query.split("&"):
        if names_secret(pair.partition("=")[0]):
            raise ValueError(f"{pair.partition('=')[0]}: a secret belongs in a file, not in an address")


def check_question(value: str) -> str:
    """Return an address whose question may be written as it is meant, braces, quotes and backticks too.

    Raises ValueError as `check_template` does, and for control characters.
    """
    address, _, question = value.partition("?")
    check_template(address)
    for name in _WORD.findall(question):
        if name not in _KNOWN:
            raise ValueError(f"expected {{node}}, {{short}} or {{name}}, found {{{name}}}")
    if any(ord(character) < 32 for character in question):
        raise ValueError("expected a question in one line")
    _check_secrets(question)
    return value


def question_url(template: str, rule: "NodeNameRule", node: str) -> str:
    """Return the address of a question for this node, percent-escaped. Raises Unavailable as `node_url` does."""
    address, mark, question = template.partition("?")
    place = node_url(address, rule, node)
    asked = _WORD.sub(lambda found: node_url(found[0], rule, node), question)
    escaped = quote(_BARE_PERCENT.sub("%25", asked), safe=_AS_IT_IS)
    return f"{place}{mark}{escaped}"


class NodeNameRule(BaseModel):
    """How the name in an address, `{name}`, is made from the node's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str | None = Field(
        default=None, description=r"Regular expression that the whole node name must match, e.g. `node(\d+)\..*`."
    )
    replacement: str = Field(
        default=r"\g<0>", description=r"What {name} becomes, with the pattern's groups, e.g. `bmc\1.mgmt`."
    )

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"expected a regular expression: {error}") from None
        return value

    def apply(self, node: str) -> str:
        """Return the name for `node`. Raises Unavailable(`unconfigured`) where the pattern does not fit it."""
        if self.pattern is None:
            return node
        found = re.fullmatch(self.pattern, node)
        if found is None:
            raise Unavailable("unconfigured", f"node_name.pattern: does not match the node name {node!r}")
        try:
            return found.expand(self.replacement)
        except (re.error, IndexError) as error:
            raise Unavailable("unconfigured", f"node_name.replacement: {error}") from None


def node_url(template: str, rule: NodeNameRule, node: str) -> str:
    """Return the address for this node. Raises Unavailable(`unconfigured`) for a name that fits no address.

    Any text with placeholders does: `{node}` is the node's name, `{short}` what stands before its first dot, `{name}`
    what the rule makes of it.
    """
    names = {"node": node, "short": node.partition(".")[0], "name": rule.apply(node)}
    for used in set(_PLACEHOLDER.findall(template)):
        if not _NAME.fullmatch(names[used]):
            raise Unavailable("unconfigured", f"{{{used}}}: expected a host name, found {names[used]!r}")
    return _PLACEHOLDER.sub(lambda found: names[found[1]], template)
