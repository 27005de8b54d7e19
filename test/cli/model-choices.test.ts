import assert from "node:assert/strict";
import { it } from "node:test";
import { refused, told } from "./fixture.ts";

it("berth model pull prints the models that a name stands for, and how one is chosen, as a usage error", async () => {
  const choice = (quantization: string | null, name: string, more: object = {}): object => ({
    name,
    quantization,
    size_bytes: 2 * 1024 ** 3,
    is_projector: false,
    fit: { verdict: "fits", message: "" },
    ...more,
  });
  const choices = [
    choice("Q4_K_M", "o/r:Q4_K_M"),
    choice("Q8_0", "o/r:Q8_0", { fit: { verdict: "does_not_fit" } }),
    choice(null, "hf://o/r/odd.gguf", { fit: null }),
    choice("F16", "hf://o/r/mmproj-F16.gguf", { is_projector: true, fit: null }),
  ];
  const table = [
    "QUANT   SIZE     FIT           NAME",
    "Q4_K_M  2.0 GiB  fits          o/r:Q4_K_M",
    "Q8_0    2.0 GiB  does not fit  o/r:Q8_0",
    "-       2.0 GiB  -             hf://o/r/odd.gguf",
    "F16     2.0 GiB  projector     hf://o/r/mmproj-F16.gguf",
  ];
  const how = "choose one of them: `berth model pull o/r:Q4_K_M`\n";
  for (const [answer, typed, head, more] of [
    [
      refused(409, "dispatch.invalid_request", "o/r has 6 models", { path: ["model"], choices, left_out: 2 }),
      "o/r",
      "usage: o/r stands for several models:",
      "and 2 more\n",
    ],
    [
      refused(404, "model.not_found", "o/r has no Q5_0", { choices, left_out: 0 }),
      "o/r:Q5_0",
      "usage: nothing is called o/r:Q5_0; there is:",
      "",
    ],
  ] as const) {
    const { ended, bodies } = await told({ "/api/models/pull": answer }, `model pull ${typed}`);
    assert.deepEqual(ended, { code: 2, stdout: "", stderr: `${[head, ...table].join("\n")}\n${more}${how}` });
    assert.deepEqual(bodies, [JSON.stringify({ model: typed })]);
  }
});
