import { randomUUID } from "node:crypto";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { bootId } from "../../../src/lib/boot-id.ts";
import { startTimeOf } from "../../../src/lib/process-identity.ts";
import { openStore } from "../../../src/store/open.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { describeStore } from "../store-conformance.ts";

describeStore("a store in files", async () => {
  const directory = await tempDir();
  const stateDir = join(directory.path, "state");
  const lock = join(stateDir, "operator.lock");
  return {
    open: () => openStore({ store: "files", stateDir, configDir: join(directory.path, "config"), readOnly: false }),
    async seize() {
      const holder = { pid: process.pid, startTime: startTimeOf(process.pid), bootId: bootId(), id: randomUUID() };
      await writeFile(`${lock}.new`, JSON.stringify(holder));
      await rename(`${lock}.new`, lock);
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
});
