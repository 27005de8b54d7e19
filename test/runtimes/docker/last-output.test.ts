import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { lastOutput } from "../../../src/runtimes/docker/last-output.ts";
import { containerLogFile } from "../../../src/runtimes/logs/logs.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { container, label } from "./fixture.ts";

it("the last output of a container does not include the output of the container before it", async () => {
  await using directory = await tempDir();
  await mkdir(join(directory.path, "logs"));
  const times = { StartedAt: "2026-01-01T00:00:10.5Z", FinishedAt: "2026-01-01T00:00:12Z" };
  const words = async (ExitCode: number, ...lines: string[]): Promise<string> => {
    await writeFile(containerLogFile(directory.path, label), lines.map((line) => `${line}\n`).join(""));
    const { info } = container("c1", { ...times, Status: "exited", Running: false, ExitCode });
    return await lastOutput(directory.path, { label, info });
  };
  const before = "2026-01-01T00:00:01.000000001Z stdout model loaded";
  assert.equal(await words(1, before), "");
  const failed = ["2026-01-01T00:00:11.5Z stderr no memory", "2026-01-01T00:00:11.6Z stdout "];
  assert.equal(await words(1, before, ...failed), "no memory");
  // Podman's stamps.
  assert.equal(await words(1, before, "2026-01-01T00:00:10Z stdout at once"), "at once");
  // A killed engine could not log its end.
  const idle = "0.10.000.000 I srv  update_slots: all slots are idle";
  assert.equal(await words(1, `2026-01-01T00:00:11Z stdout ${idle}`), idle);
  assert.equal(await words(137, `2026-01-01T00:00:11Z stdout ${idle}`), "");
});
