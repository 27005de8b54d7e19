import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ProjectorCache } from "../../../src/models/fit/projector.ts";
import { projector, writeProjector } from "../../support/projector.ts";
import { tempDir } from "../../support/temp-dir.ts";

const mebibyte = 1024 ** 2;

describe("the memory of a projector", () => {
  /** As llama-server 0.3.36 reports weights and `reserve_compute_meta` on a processor, in MiB. */
  for (const [width, heads, feedForward, imageSize, weights, flash, whole] of [
    [512, 8, 2048, 112, 27.82, 0.91, 0.91],
    [512, 8, 2048, 448, 29.69, 14.32, 40.37],
    [512, 8, 2048, 896, 35.69, 57.23, 545.47],
    [1024, 16, 4096, 336, 103.62, 19.32, 32.88],
    [1152, 16, 4304, 448, 126.45, 37.15, 88.95],
    [1152, 16, 4304, 896, 139.95, 148.5, 1123.74],
  ] as const) {
    it(`is its weights and the work of one picture: ${width} wide, ${imageSize} pixels`, async () => {
      await using directory = await tempDir();
      const path = join(directory.path, "mmproj.gguf");
      await writeProjector(path, { ...projector, layers: 4, width, heads, feedForward, imageSize });
      const cache = new ProjectorCache();
      for (const [isFlash, work] of [
        [true, flash],
        [false, whole],
      ] as const) {
        const ratio = (await cache.bytesOf(path, isFlash)) / (weights + work) / mebibyte;
        // A narrow encoder uses the picture's own buffer again: of those the figure is too high, and real ones are wider.
        const most = width > 3 * projector.patchSize ** 2 ? 1.02 : 1.2;
        assert.ok(ratio > 0.99 && ratio < most, `${ratio}`);
      }
    });
  }

  it("is its file alone where the header tells nothing", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "mmproj.gguf");
    await writeFile(path, "x".repeat(100));
    assert.equal(await new ProjectorCache().bytesOf(path, true), 100);
  });
});
