#!/usr/bin/env bash
# Run a command as in the engine's container: the root file system is read-only, /cache, /tmp and /dev/shm are volumes.
#
#     unshare --mount [--user --map-root-user] pod_root.sh ROOT VISIBLE COMMAND...
#
# ROOT is an empty folder for the new root; VISIBLE and this checkout, which may lie in /tmp, stay readable under their
# own paths.
set -euo pipefail
root=$1 visible=$2
shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
for entry in /*; do
  here="$root$entry"
  case $entry in
    /cache | /tmp) ;;
    *)
      if [ -L "$entry" ]; then
        cp --no-dereference "$entry" "$here"
      elif [ -d "$entry" ]; then
        mkdir "$here"
        mount --rbind "$entry" "$here"
        # What is mounted below stays as it is; in a container nothing is mounted below but what these are for.
        case $entry in /proc | /sys | /dev) ;; *) mount -o remount,bind,ro "$here" ;; esac
      fi
      ;;
  esac
done
mkdir "$root/cache" "$root/tmp"
for volume in /cache /tmp /dev/shm; do
  mount -t tmpfs -o mode=1777 tmpfs "$root$volume"
done
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
for folder in "$visible" "$checkout"; do
  case $folder in
    /tmp/* | /cache/*) # hidden by a volume
      mkdir --parents "$root$folder"
      mount --bind "$folder" "$root$folder"
      mount -o remount,bind,ro "$root$folder"
      ;;
  esac
done
mount -o remount,ro "$root"
exec chroot "$root" "$@"
