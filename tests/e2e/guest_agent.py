"""A real agent that tells its guests ten times as often as any agent may: tests do not wait.

python -m tests.e2e.guest_agent CONFIG STATE
"""

import json
import sys
from pathlib import Path

from kwhere.agent.guest_feeds import GuestFeeds
from kwhere.apps.agent_role import run_agent
from kwhere.apps.settings import Settings

PUBLISH_SECONDS = 0.2


def main(config: str, state: str) -> int:
    """Run until SIGTERM."""
    GuestFeeds.interval_seconds = PUBLISH_SECONDS
    return run_agent(Settings.model_validate(json.loads(Path(config).read_text())), Path(state))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
