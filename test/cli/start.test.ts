import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { z } from "zod";
import { apiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { slots } from "./fixture.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const coverage = z.object({ result: z.array(z.object({ url: z.string() })) });

/** The modules that a command has loaded, by path in the repository; packages by name. */
async function loadedBy(args: readonly string[]): Promise<string[]> {
  await using directory = await tempDir();
  await using api = await apiDouble({
    "/api/slots": slots,
    "/api/status": { version: "1", uptime_seconds: 1 },
    "/api/health/system": { status: "ok" },
  });
  const { code } = await runBerth(args, { SVC_URL: api.url, NODE_V8_COVERAGE: directory.path });
  assert.equal(code, 0);
  const urls = new Set<string>();
  for (const name of await readdir(directory.path)) {
    const text: unknown = JSON.parse(await readFile(join(directory.path, name), "utf8"));
    for (const { url } of coverage.parse(text).result) if (url.startsWith("file:")) urls.add(url);
  }
  const paths = [...urls].map((url) => relative(root, fileURLToPath(url)));
  return [...new Set(paths.map((path) => /^node_modules\/((@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? path))].toSorted();
}

// A command that a person waits for starts in a quarter of a second: no schema library, no server, no log.
for (const [args, own] of [
  [
    ["slot", "list"],
    ["src/cli/benchmark.ts", "src/cli/chosen-model.ts", "src/cli/slots.ts"],
  ],
  [["status"], ["src/cli/benchmark.ts", "src/cli/chosen-model.ts", "src/cli/slots.ts", "src/cli/status.ts"]],
] as const) {
  it(`berth ${args.join(" ")} loads little`, async () => {
    assert.deepEqual(
      // The declarations of commands are many and small; what they do is loaded when it is done.
      (await loadedBy(args)).filter((path) => !path.endsWith("-commands.ts")),
      [
        "commander",
        "src/api/byte-text.ts",
        "src/api/duration.ts",
        "src/api/longest-loan.ts",
        "src/api/scopes.ts",
        "src/cli/client.ts",
        "src/cli/commands.ts",
        "src/cli/credentials.ts",
        "src/cli/options.ts",
        "src/cli/output.ts",
        "src/cli/idle-timeout.ts",
        "src/cli/watch.ts",
        "src/main/berth.ts",
        "src/main/entry.ts",
        "src/program/lost-output.ts",
        "src/main/program.ts",
        "src/main/usage-hints.ts",
        "src/program/version.ts",
        ...own,
      ].toSorted(),
    );
  });
}

it("bin/berth is found by a path from here, whatever CDPATH a shell has exported", async () => {
  await using directory = await tempDir();
  await mkdir(join(directory.path, "bin"));
  const { stdout } = await promisify(execFile)("bin/berth", ["--version"], {
    cwd: root,
    env: { PATH: process.env["PATH"], CDPATH: directory.path },
  });
  assert.match(stdout, /^\d+\.\d+\.\d+/);
});
