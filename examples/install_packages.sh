#!/usr/bin/env bash
# Installs by package name what building needs (and with `tests` what the tests need), on Debian 12 or
# Ubuntu 24.04, as root or with sudo. Does nothing when all is there.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config git ca-certificates
  libyaml-dev          # config files
  libtomlplusplus-dev  # configs in TOML
  nlohmann-json3-dev   # JSON
  libvalijson-dev      # JSON Schema
  libfmt-dev           # text
  libcli11-dev         # command line
  libgit2-dev          # state of the code
  libsqlite3-dev       # the store
  libxxhash-dev        # content hashes
  libzip-dev           # PyTorch's .pth files
  libjpeg-dev          # images: libjpeg-turbo on both systems
  libpng-dev           # PNG
  libwebp-dev          # WebP
  libdnnl-dev          # oneDNN: the CPU backend
)
if [ "${1:-}" = tests ]; then
  packages+=(catch2 sqlite3 ccache python3)
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep 'ok installed' >/dev/null || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ]; then
  run=()
elif command -v sudo >/dev/null; then
  run=(sudo)
else
  echo "error: these packages are missing: ${missing[*]}" >&2
  echo "  next: run this script as root, or install sudo" >&2
  exit 1
fi
if ! command -v apt-get >/dev/null; then
  echo "error: this system has no apt-get; install by hand: ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${run[@]}" apt-get update -qq
"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
