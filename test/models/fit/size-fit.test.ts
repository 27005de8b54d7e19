import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sizeFit } from "../../../src/models/fit/size-fit.ts";
import { apu, gpu } from "../../hardware/parts.ts";

const gib = 1024 ** 3;
const memory = (size: number | null) => ({
  total_bytes: size,
  available_bytes: size,
  swap_bytes: 0,
  limit_bytes: null,
  usable_bytes: size,
  evidence: [],
});
const card = gpu({
  id: "GPU0",
  vendor: "nvidia",
  integrated: false,
  memory_bytes: 8 * gib,
  backends: ["cuda"],
  evidence: [],
});
const shared = { ...apu, shared_memory_bytes: 8 * gib };

describe("whether a model of a known size fits", () => {
  for (const [gibibytes, gpus, backend, size, verdict, message] of [
    [8, [], "cpu", 4, "fits", /^needs about 5\.0 GiB, by its size alone; host has 8\.0 GiB$/],
    [8, [], "cpu", 8, "does_not_fit", /^needs about 9\.5 GiB, by its size alone, of 8\.0 GiB: 1\.5 GiB too much$/],
    [16, [card], "cuda", 4, "fits", /; GPU0 has 8\.0 GiB$/],
    [
      16,
      [card],
      "cuda",
      12,
      "fits_with",
      /; GPU0 has 8\.0 GiB: a part of it computes on the processor, which is slower$/,
    ],
    [16, [card], "cuda", 30, "does_not_fit", /of 24\.0 GiB: 10\.\d GiB too much$/],
    [16, [card], undefined, 12, "fits", /; host has 16\.0 GiB$/],
    [16, [shared], "vulkan", 14, "does_not_fit", /too much$/],
    [null, [], "cpu", 4, "unknown", /the memory here is not known$/],
  ] as const) {
    it(`${size} GiB of ${String(gibibytes)} by ${String(backend)}: ${verdict}`, () => {
      const found = sizeFit(
        size * gib,
        { memory: memory(gibibytes === null ? null : gibibytes * gib), gpus: [...gpus] },
        backend,
      );
      assert.equal(found.verdict, verdict, found.message);
      assert.match(found.message, message);
    });
  }
});
