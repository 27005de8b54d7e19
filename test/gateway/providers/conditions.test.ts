import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Condition } from "../../../src/api/conditions.ts";
import type { ResourceStatus } from "../../../src/api/resource-status.ts";
import { upstreamConditions } from "../../../src/gateway/providers/conditions.ts";
import type { UpstreamView } from "../../../src/gateway/providers/upstreams.ts";
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
  const invalid = "Ready False InvalidSpec";
  const unlisted = having({ address: "x", discovery: "x" });
  const lost = [{ ref: "big", holder: "slot big" }];
  const rows: readonly (readonly [what: string, conditions: string, options: Parameters<typeof asked>[0]])[] = [
    ["nothing is wrong", serving, {}],
    ["the operator is older", serving, { published: undefined }],
    ["the manifest was never valid", `${invalid}, Stalled True InvalidSpec`, { view: undefined, published: broken }],
    [
      "the manifest is broken, and its last good spec serves",
      `${invalid}, Available True Serving, Stalled True InvalidSpec`,
      { published: broken },
    ],
    ["there is no key", `${failing("NoKey")}, Stalled True NoKey`, having({ key: "x", discovery: "x" })],
    ["the key is not taken", `${failing("KeyRefused")}, Stalled True KeyRefused`, having({ refused: "x" })],
    ["its name leads astray", `${failing("AddressRefused")}, Stalled True AddressRefused`, unlisted],
    ["it is down", `${failing("CircuitOpen")}, Degraded True CircuitOpen`, { view: { ...view, circuit: "open" } }],
    ["its models cannot be listed", `${serving}, Degraded True ModelsNotListed`, having({ discovery: "x" })],
    ["a model keeps failing", `${serving}, Degraded True ModelsPaused`, { view: { ...view, pausedModels: 1 } }],
    ["another resource has its ref", `${serving}, NameConflict True NameConflict`, { lost }],
  ];
  for (const [what, expected, options] of rows)
    it(`when ${what}`, () => {
      const found = asked(options).map(({ type, status, reason }) => `${type} ${status} ${reason}`);
      assert.equal(found.join(", "), expected);
    });

  it("keep the time at which a status moved", () => {
    const first = asked({});
    const down = asked({ view: { ...view, circuit: "open" }, before: first, now: at(2) });
    const still = asked({ view: { ...view, circuit: "halfOpen" }, before: down, now: at(3) });
    const minutes = (found: readonly Condition[]): string[] =>
      found.map(({ type, lastTransitionTime }) => `${type} ${new Date(lastTransitionTime).getUTCMinutes()}`);
    assert.deepEqual(minutes(still), ["Ready 2", "Available 2", "Degraded 2"]);
    assert.deepEqual(minutes(asked({ published: broken, now: at(4) })), ["Ready 0", "Available 4", "Stalled 0"]);
    assert.ok(still.every(({ observedGeneration }) => observedGeneration === 3));
  });
});
