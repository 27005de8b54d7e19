import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ProgramFailed, programOutput } from "../../src/lib/program-output.ts";

const shell = async (script: string, signal = AbortSignal.timeout(180_000)): Promise<string> =>
  await programOutput("/bin/sh", ["-c", script], { signal });

describe("programOutput", () => {
  it("rejects with how it ended", async () => {
    await assert.rejects(shell("echo x; echo lost >&2; exit 3"), new ProgramFailed("/bin/sh", 3, "lost"));
    await assert.rejects(shell("kill -9 $$"), new ProgramFailed("/bin/sh", null));
    const signal = AbortSignal.timeout(180_000);
    await assert.rejects(programOutput("/nothing/here", [], { signal }), { code: "ENOENT" });
  });

  it("rejects where no descriptor is left for its pipes", async () => {
    const script = `
      import { openSync } from "node:fs";
      import { programOutput } from ${JSON.stringify(import.meta.resolve("../../src/lib/program-output.ts"))};
      const signal = new AbortController().signal;
      try { for (;;) openSync("/dev/null"); } catch {}
      await programOutput("/bin/true", [], { signal }).catch(({ code }) => console.log(code));`;
    const fewFiles = ["-c", 'ulimit -n 64; exec "$0" --input-type=module --eval "$1"', process.execPath, script];
    assert.equal(await programOutput("/bin/sh", fewFiles, { signal: AbortSignal.timeout(180_000) }), "EMFILE\n");
  });

  it("gives up what prints without end", async () => {
    await assert.rejects(shell("exec yes"), { message: /prints more than 1048576 bytes/ });
  });
});
