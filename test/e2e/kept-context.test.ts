import assert from "node:assert/strict";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const double = fileURLToPath(new URL("../doubles/llama-server.ts", import.meta.url));

/** Has the flag for contexts and does not find the directory, as where SELinux or AppArmor keeps it from the directory. */
const blind = `#!/bin/sh
case "$*" in
  --help) printf -- '--slot-save-path PATH\\n-c, --ctx-size N\\n' ;;
  *--slot-save-path*) printf 'error while handling argument "--slot-save-path": not a directory: /x\\n\\nusage:\\n' >&2; exit 1 ;;
  *) exec ${process.execPath} ${double} "$@" ;;
esac
`;

it("a slot starts without a place for its context where its llama-server does not find the place, and says why", async () => {
  await using directory = await tempDir();
  const program = join(directory.path, "llama-server");
  await writeFile(program, blind, { mode: 0o755 });
  await using berth = await startBerth({
    env: { SVC_LLAMA_SERVER: program },
    async prepare({ configDir, modelsDir }) {
      await writeTinyModel(join(modelsDir, "whole.gguf"));
      await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "whole"\nkeep_context = {}\n');
    },
  });
  const { context, restarts } = await berth.state("primary", "ready", "idle");
  const message =
    "it starts without a place for its context: the engine before ended for it: " +
    'error while handling argument "--slot-save-path": not a directory: /x';
  assert.deepEqual([context?.result, context?.message, restarts], ["dropped", message, 1]);
  assert.deepEqual(await readdir(join(berth.stateDir, "contexts/primary")), []);
  const { stdout } = await runBerth(["slot", "show", "primary"], { SVC_URL: berth.url });
  assert.ok(stdout.includes(message), stdout);
});
