import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it, mock } from "node:test";
import { openFileSource } from "../../../src/store/files/file-source.ts";
import { tempDir } from "../../support/temp-dir.ts";

// A process of its own: it stops the clock.
it("a removal acts after its time under any change of the clock", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "slots", "a.toml");
  await mkdir(join(dir.path, "slots"));
  await writeFile(file, '[model]\ndefault = "one"\n');
  await using source = await openFileSource({ configDir: dir.path });
  assert.notEqual(source.get("Slot", "a"), undefined);
  const gone = new Promise<void>((resolve) => {
    source.watch(() => {
      if (source.get("Slot", "a") === undefined) resolve();
    });
  });
  mock.timers.enable({ apis: ["Date"], now: Date.now() });
  try {
    await rm(file);
    await gone;
  } finally {
    mock.timers.reset();
  }
});
