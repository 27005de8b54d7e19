import assert from "node:assert/strict";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { chat, manifest, writeSlot } from "./fixture.ts";

const model = '[model]\ndefault = "a"\non_request = ["b"]\nmin_residency_seconds = 0\nmax_wait_seconds = 2\n';

it("requests choose the model of a slot: each is answered by the one that it names", async () => {
  await using berth = await startBerth({
    prepare: (directories) => writeSlot(directories, "coder", manifest(["--tell-model"], model)),
  });
  await berth.state("coder", "ready", "idle");
  for (const [named, answered] of [
    ["coder", "a"],
    ["b", "b"],
    ["coder:b", "b"],
    ["a", "a"],
  ] as const) {
    assert.deepEqual(await chat(berth, named), [200, answered], named);
    assert.equal((await berth.slot("coder"))["model"], answered);
  }
  const together = await Promise.all(["a", "b", "a", "b"].map((each) => chat(berth, each)));
  assert.deepEqual(
    together.map(([, text]) => text),
    ["a", "b", "a", "b"],
  );
  assert.deepEqual(await chat(berth, "c"), [404, "model.not_found"]);
});
