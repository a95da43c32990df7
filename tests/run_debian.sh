#!/usr/bin/env bash
# Tests with another Python or for another processor: `run_debian.sh arm64 bookworm 3.11`, `run_debian.sh amd64 sid 3.14`,
# with what pytest is to run after it. Debian's packages are unpacked into a folder, and wheels beside them, this library's
# too; qemu (Debian's qemu-user-static) runs what is for arm64. Needs Debian's apt and pip, and the network.
set -euo pipefail
cd "$(dirname "$0")/.."
architecture=$1 suite=$2 version=$3
shift 3
folder=$PWD/.venv-debian/$architecture-$suite-$version
root=$folder/root site=$folder/site python=$folder/python
case $architecture in
  arm64) machine=aarch64 loader="qemu-aarch64-static -0 '$python' -L '$root'" ;;
  amd64) machine=x86_64 loader="'$root/lib64/ld-linux-x86-64.so.2' --argv0 '$python' --library-path '$root/usr/lib/x86_64-linux-gnu'" ;;
esac
if [ ! -d "$site" ]; then
  rm -rf "$folder" && mkdir -p "$folder"/{lists/partial,cache/archives/partial,root}
  touch "$folder/status"
  keys=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
  echo "deb [signed-by=$keys] $mirror $suite main" > "$folder/sources.list"
  apt=(apt-get -qq -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o "Dir::State::Lists=$folder/lists"
    -o "Dir::State::status=$folder/status" -o "Dir::Cache=$folder/cache" -o "Dir::Etc::sourcelist=$folder/sources.list"
    -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=)
  "${apt[@]}" update
  "${apt[@]}" install -y --download-only --no-install-recommends base-files "python$version" libstdc++6
  for package in "$folder"/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
  python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
    > "$folder/core.txt"
  platforms=()
  for platform in manylinux_2_{34,28,27,24,17}_$machine manylinux2014_$machine; do platforms+=(--platform "$platform"); done
  python3 -m pip install -q --target "$site.new" "${platforms[@]}" --python-version "$version" --implementation cp \
    --only-binary=:all: -c constraints.txt -r "$folder/core.txt" pytest pytest-xdist hypothesis mpmath scipy \
    threadpoolctl coal casadi
  mv "$site.new" "$site"
fi
rm -rf "$folder"/{dist,wheel}
python3 -m pip wheel -q --no-deps -w "$folder/dist" .
python3 -m pip install -q --no-deps --target "$folder/wheel" "$folder"/dist/*.whl
printf '#!/bin/sh\nexec %s "$@"\n' "$loader '$root/usr/bin/python$version'" > "$python" # children are started by it, too
chmod +x "$python"
export PYTHONHOME=$root/usr PYTHONPATH=$folder/wheel:$site:$site/cmeel.prefix/lib/python$version/site-packages PYTHONDONTWRITEBYTECODE=1 DELASSUS_CACHE=$folder/kernels
mkdir -p -m 700 "$DELASSUS_CACHE"
# unless said: kernels in both types, soft dynamics, derivatives, threads, scenes; qemu is slow
[ $# -gt 0 ] || set -- tests/test_kernel.py tests/test_dynamics_soft.py tests/test_dynamics_derivatives.py tests/test_threads.py \
  tests/test_simulator.py \
  -k 'loop-auto-8 or test_soft_constraints[1- or kernels_with_every_option or million_threads or same_bits or nothing_moves or rests_up_to or adds_up'
exec "$python" -m pytest -p no:cacheprovider -o faulthandler_timeout=3600 "$@"
