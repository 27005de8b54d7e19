import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Condition } from "../../../src/api/conditions.ts";
import type { ResourceStatus } from "../../../src/api/resource-status.ts";
import { upstreamConditions } from "../../../src/gateway/upstreams/conditions.ts";
import type { UpstreamView } from "../../../src/gateway/upstreams/upstreams.ts";
import { specOf } from "./fixture.ts";

const view: UpstreamView = {
  name: "acme",
  spec: specOf({ baseUrl: "http://127.0.0.1:1/v1", models: [{ ref: "big" }] }),
  circuit: "closed",
  pausedModels: 0,
  inFlight: 0,
  queued: 0,
  refs: 1,
  problems: { key: undefined, refused: undefined, address: undefined, discovery: undefined },
};
const at = (minute: number): Date => new Date(Date.UTC(2026, 10, 22, 12, minute));
const condition = (type: string, status: Condition["status"], reason: string): Condition => ({
  type,
  status,
  reason,
  message: `${reason} in /c/acme.toml`,
  observedGeneration: 3,
  lastTransitionTime: at(0).toISOString(),
});
const manifestOf = (...conditions: Condition[]): ResourceStatus => ({
  kind: "Upstream",
  name: "acme",
  file: "/c/acme.toml",
  generation: 3,
  specHash: "h",
  conditions,
});
const accepted = manifestOf(condition("Ready", "True", "Accepted"));
const broken = manifestOf(condition("Ready", "False", "InvalidSpec"), condition("Stalled", "True", "InvalidSpec"));
const { problems } = view;

const asked = (options: Partial<Parameters<typeof upstreamConditions>[0]>): readonly Condition[] =>
  upstreamConditions({ view, published: accepted, lost: [], before: [], now: at(1), ...options });
const having = (more: Partial<UpstreamView["problems"]>) => ({ view: { ...view, problems: { ...problems, ...more } } });
const serving = "Ready True Serving, Available True Serving";
const failing = (reason: string): string => `Ready False ${reason}, Available False ${reason}`;

describe("a provider's conditions", () => {
  for (const [what, options, expected] of [
    ["nothing is wrong", {}, serving],
    ["the operator is older", { published: undefined }, serving],
    [
      "the manifest was never valid",
      { view: undefined, published: broken },
      "Ready False InvalidSpec, Stalled True InvalidSpec",
    ],
    [
      "the manifest is broken, and its last good spec serves",
      { published: broken },
      "Ready False InvalidSpec, Available True Serving, Stalled True InvalidSpec",
    ],
    [
      "there is no key: no list either",
      having({ key: "x", discovery: "x" }),
      `${failing("NoKey")}, Stalled True NoKey`,
    ],
    ["the key is not taken", having({ refused: "x" }), `${failing("KeyRefused")}, Stalled True KeyRefused`],
    [
      "its name leads where it may not",
      having({ address: "x", discovery: "x" }),
      `${failing("AddressRefused")}, Stalled True AddressRefused`,
    ],
    [
      "the provider is down",
      { view: { ...view, circuit: "open" } },
      `${failing("CircuitOpen")}, Degraded True CircuitOpen`,
    ],
    ["its models cannot be listed", having({ discovery: "x" }), `${serving}, Degraded True ModelsNotListed`],
    ["a model keeps failing", { view: { ...view, pausedModels: 1 } }, `${serving}, Degraded True ModelsPaused`],
    [
      "another resource has its ref",
      { lost: [{ ref: "big", holder: "slot big" }] },
      `${serving}, NameConflict True NameConflict`,
    ],
  ] as const)
    it(`when ${what}`, () => {
      const found = asked(options).map(({ type, status, reason }) => `${type} ${status} ${reason}`);
      assert.equal(found.join(", "), expected);
    });

  it("keep the time at which a status moved", () => {
    const first = asked({});
    const down = asked({ view: { ...view, circuit: "open" }, before: first, now: at(2) });
    const still = asked({ view: { ...view, circuit: "halfOpen" }, before: down, now: at(3) });
    const times = still.map(({ type, lastTransitionTime }) => `${type} ${lastTransitionTime}`);
    assert.deepEqual(times, [
      `Ready ${at(2).toISOString()}`,
      `Available ${at(2).toISOString()}`,
      `Degraded ${at(2).toISOString()}`,
    ]);
    const since = asked({ published: broken, now: at(4) }).map(({ lastTransitionTime }) => lastTransitionTime);
    assert.deepEqual(
      since,
      [at(0), at(4), at(0)].map((time) => time.toISOString()),
    );
    assert.ok(still.every(({ observedGeneration }) => observedGeneration === 3));
  });
});
