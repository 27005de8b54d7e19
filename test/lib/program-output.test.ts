import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ProgramFailed, programOutput } from "../../src/lib/program-output.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const shell = async (script: string, signal = AbortSignal.timeout(180_000)): Promise<string> =>
  await programOutput("/bin/sh", ["-c", script], { signal });

describe("programOutput", () => {
  it("returns the program's output, and runs it in a session of its own", async () => {
    const [said, session = "", pid] = (await shell('echo hello; cut -d" " -f6 /proc/$$/stat; echo $$')).split("\n");
    assert.equal(said, "hello");
    assert.equal(session, pid);
  });

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

  it("ends with its signal, and with what prints without end", async () => {
    const ending = new AbortController();
    await using directory = await tempDir();
    const file = join(directory.path, "pid");
    const waiting = shell(
      `cat /dev/zero >/dev/null & echo $! >${file}.new; mv ${file}.new ${file}; wait`,
      ending.signal,
    );
    const refused = assert.rejects(waiting, { name: "AbortError" });
    await until("it has started a program of its own", () => existsSync(file));
    ending.abort();
    await refused;
    const pid = readFileSync(file, "utf8").trim();
    await until("what it has started has ended too", () => !existsSync(`/proc/${pid}`));
    await assert.rejects(shell("exec yes"), { message: /prints more than 1048576 bytes/ });
  });
});
