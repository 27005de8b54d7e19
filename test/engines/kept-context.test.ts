import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { EngineInput } from "../../src/engines/engine.ts";
import { derivedKeeping, savePathFlag, withoutContextPlace } from "../../src/engines/kept-context.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { input, workload } from "./fixture.ts";

const images = { llama: { cpu: { image: "llama:1" } } };
const keeping = { model: { default: "tiny", keepContext: {} } } satisfies SlotSpecInput;
const host = {
  llamaServer: "/opt/llama-server",
  server: { flags: new Set([savePathFlag]), hasTraceLevel: false, devices: [] },
  embedded: undefined,
  contextDir: "/state/contexts",
};

const given = (spec: SlotSpecInput = keeping, more: Partial<Omit<EngineInput, "spec">> = {}): EngineInput =>
  input({ host, spec, ...more });

/** On an image, by a host without a llama-server of its own. */
const inDocker = (spec: SlotSpecInput): EngineInput =>
  given(spec, {
    host: { llamaServer: undefined, embedded: undefined, contextDir: "/state/contexts" },
    placement: { ...runningIn("docker"), backend: "cpu", images, lock: {} },
  });

describe("the place where a slot's engine saves its context", () => {
  it("is a directory of its own", () => {
    const { command } = workload(given());
    assert.equal(command[command.indexOf(savePathFlag) + 1], "/state/contexts/primary/main");
    assert.deepEqual(derivedKeeping(given()), { keepContext: { value: "on", reason: "the spec" } });
  });

  it("is mounted into a container, at a path that no image has", () => {
    const { command, contextPlace } = workload(inDocker(keeping));
    assert.deepEqual(contextPlace, { source: "/state/contexts/primary/main", target: "/berth/context" });
    assert.equal(
      command.join(" "),
      "--host 0.0.0.0 --port 8080 --threads 1 --metrics --no-webui --slot-save-path /berth/context " +
        "--model /models/tiny.gguf --alias tiny --parallel 1 --jinja",
    );
    const replica = workload({ ...inDocker(keeping), ordinal: 1 });
    assert.deepEqual(replica.contextPlace, { source: "/state/contexts/primary/main-1", target: "/berth/context" });
    assert.deepEqual(derivedKeeping(inDocker(keeping)), { keepContext: { value: "on", reason: "the spec" } });
  });

  it("is nowhere for a slot that keeps no context, and restarts no engine", () => {
    for (const spec of [keeping, {}]) {
      const given = inDocker(spec);
      const before = workload({ ...given, host: { llamaServer: undefined, embedded: undefined } });
      const now = workload(given);
      assert.equal(now.hash, before.hash);
      if (spec !== keeping) assert.deepEqual(now, before);
    }
  });

  it("is taken off the workload with its flag, and leaves the manifest's own flag alone", () => {
    const made = workload(inDocker(keeping));
    const { contextPlace: _place, ...rest } = made;
    const command = made.command.filter((word) => word !== savePathFlag && word !== "/berth/context");
    assert.deepEqual(withoutContextPlace(made), { ...rest, command });
    const own = workload(inDocker({ ...keeping, args: [savePathFlag, "/elsewhere"] }));
    assert.deepEqual(withoutContextPlace(own), own);
  });

  const refused: readonly [string, EngineInput, string][] = [
    [
      "an engine in a Pod",
      given(keeping, { placement: { ...runningIn("kubernetes"), backend: "cpu", images, lock: {} } }),
      "a Pod has no place for it that outlives the Pod: the volume of models is read-only there",
    ],
    [
      "an image of the embedded engine",
      inDocker({ ...keeping, image: "berth-embedded:1" }),
      "the embedded engine cannot save its context: name an image of llama.cpp's own server",
    ],
    ...["/berth", "/berth/context/", "/berth/context/more"].map((target): (typeof refused)[number] => [
      `a container with a mount of the manifest's own at ${target}`,
      inDocker({ ...keeping, mounts: [{ source: "/srv", target }] }),
      `the manifest's own mount at ${target} is in its place`,
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
      const { command, contextPlace } = workload(slot);
      assert.ok(!command.some((word) => ["/state/contexts/primary/main", "/berth/context"].includes(word)));
      assert.equal(contextPlace, undefined);
      assert.deepEqual(derivedKeeping(slot), { keepContext: { value: "off", reason } });
    });
  }
});
