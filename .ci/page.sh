#!/usr/bin/env bash
# A page in headless Chromium (Debian's package): it must fetch nothing and complain of nothing.
#   .ci/page.sh                    installs the browser where it is missing
#   .ci/page.sh PAGE [PICTURE]     looks at a page, and takes a picture of it
set -euo pipefail
if ! command -v chromium chromium-browser google-chrome >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
[ $# -eq 0 ] || exec .venv/bin/python -m tests.browser "$@"
