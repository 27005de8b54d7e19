import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { EngineInput } from "../../src/engines/engine.ts";
import { derivedKeeping, savePathFlag } from "../../src/engines/kept-context.ts";
import { readEngineImages } from "../../src/store/state/engine-images.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { input, workload } from "./fixture.ts";

const images = await readEngineImages("manifests/engines.yaml");
const keeping = { model: { default: "tiny", keepContext: {} } } satisfies SlotSpecInput;
const host = {
  llamaServer: "/opt/llama-server",
  server: { flags: new Set([savePathFlag]), hasTraceLevel: false, devices: [] },
  embedded: undefined,
  contextDir: "/state/contexts",
};

const given = (spec: SlotSpecInput = keeping, more: Partial<Omit<EngineInput, "spec">> = {}): EngineInput =>
  input({ host, spec, ...more });

describe("the place where a slot's engine saves its context", () => {
  it("is a directory of its own", () => {
    const { command } = workload(given());
    assert.equal(command[command.indexOf(savePathFlag) + 1], "/state/contexts/primary/main");
    assert.deepEqual(derivedKeeping(given()), { keepContext: { value: "on", reason: "the spec" } });
  });

  const refused: readonly [string, EngineInput, string][] = [
    ...(["docker", "kubernetes"] as const).map((runtime): (typeof refused)[number] => [
      `an engine in a container (${runtime})`,
      given(keeping, { placement: { ...runningIn(runtime), backend: "cpu", images, lock: {} } }),
      "this version keeps no context of an engine in a container",
    ]),
    [
      "the embedded engine",
      given(keeping, { host: { llamaServer: undefined, embedded: ["/opt/node"], contextDir: "/state/contexts" } }),
      "the embedded engine cannot save its context: put a llama-server on PATH",
    ],
    [
      "a llama-server without that flag",
      given(keeping, { host: { ...host, server: { ...host.server, flags: new Set<string>() } } }),
      "this llama-server has no --slot-save-path",
    ],
    [
      "a manifest with its own flag",
      given({ ...keeping, args: [savePathFlag, "/elsewhere"] }),
      "the manifest's own --slot-save-path decides",
    ],
  ];
  for (const [what, slot, reason] of refused) {
    it(`is not there for ${what}, and the slot's status says why`, () => {
      assert.ok(!workload(slot).command.includes("/state/contexts/primary/main"));
      assert.deepEqual(derivedKeeping(slot), { keepContext: { value: "off", reason } });
    });
  }
});
