import assert from "node:assert/strict";
import { it } from "node:test";
import { PodMemory } from "../../../src/runtimes/kubernetes/pod-memory.ts";

const pod = (uid: string) => ({ metadata: { name: "berth-a-main-0", uid } });

it("facts of a Pod are kept by its identity, and removed with the Pod", () => {
  const memory = new PodMemory<string>();
  const [former, present, ended] = [pod("1"), pod("2"), pod("3")];
  for (const each of [former, present, ended]) memory.set(each, `fact ${each.metadata.uid}`);
  assert.equal(memory.get(former), "fact 1", "another Pod of the same name does not replace it");
  memory.forget(ended);
  memory.keepOnly([present]);
  assert.deepEqual(
    [former, present, ended].map((each) => memory.get(each)),
    [undefined, "fact 2", undefined],
  );
});
