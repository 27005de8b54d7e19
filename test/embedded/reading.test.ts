import assert from "node:assert/strict";
import { it } from "node:test";
import { batchTokens, readPrompt, samplingOptions } from "../../engines/src/generation.ts";
import { readSampling } from "../../engines/src/requests.ts";

// Functions of the embedded engine that need its library, and no model.

type Token = Parameters<typeof readPrompt>[1][number];
const isToken = (number: number): number is Token => number >= 0;
const prompt = [...Array(5 * batchTokens).keys()].filter(isToken);

it("an abandoned prompt is not read to its end: reading ends within one batch", async () => {
  const client = new AbortController();
  const sequence = {
    nextTokenIndex: 0,
    async adaptStateToTokens() {
      this.nextTokenIndex = 10;
    },
    async evaluateWithoutGeneratingNewTokens(tokens: Token[]) {
      this.nextTokenIndex += tokens.length;
      if (this.nextTokenIndex > batchTokens) client.abort(new Error("the client left"));
    },
  };
  await assert.rejects(readPrompt(sequence, prompt, client.signal), /the client left/);
  assert.equal(sequence.nextTokenIndex, 10 + batchTokens, "what was known is not read again, nor is the rest");
  await readPrompt(sequence, prompt, new AbortController().signal);
  assert.equal(sequence.nextTokenIndex, prompt.length - 1);
});

it("penalties reach the sampler", () => {
  const sampling = readSampling({ presence_penalty: 2, frequency_penalty: 1, repeat_penalty: 1.5 });
  const { repeatPenalty } = samplingOptions(sampling, () => prompt);
  assert.partialDeepStrictEqual(repeatPenalty, { penalty: 1.5, frequencyPenalty: 1, presencePenalty: 2 });
  assert.equal(samplingOptions(readSampling({}), () => prompt).repeatPenalty, undefined);
});
