set -eu
# What the reviewer gets to see; a folder without git has nothing to show.
git log -1 --stat > "$AGENTFILE_RUN_DIR/change.txt" 2>/dev/null || echo "no history" > "$AGENTFILE_RUN_DIR/change.txt"
