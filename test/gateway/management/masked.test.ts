import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openPublisher } from "../../../src/store/state/publisher.ts";
import { publishedSlot } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { startGateway } from "../auth/gateway.ts";

const command = ["/opt/engine", "--api-key", "canary-command"];

describe("what a manifest says in plain text", () => {
  it("is shown to administrators, and masked for every other caller", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" });
    const spec = { command, args: ["--token=canary-args"], env: { HF_TOKEN: "canary-env" } };
    const published = publishedSlot("coder", { port: 1, spec }, 1);
    const step = { do: "start", role: "main", port: 1, command: command.join(" "), reason: "r" } as const;
    const publisher = await openPublisher(gateway.stateDir);
    await publisher.writeSlot({ ...published, plan: { ...published.plan, steps: [step] } });
    await until("it is known", () => gateway.running.seenRevision("coder") === 1);
    const answers = async (scope: "admin" | "all" | "read-only"): Promise<string> => {
      const headers = { authorization: `Bearer ${await gateway.token(scope)}` };
      const paths = ["/api/slots", "/api/slots/coder", "/api/slots/coder/plan", "/api/status", "/api/health/system"];
      const bodies = await Promise.all(paths.map(async (path) => (await gateway.ask("GET", path, headers)).body));
      const events = await fetch(`${gateway.url}/api/events`, { headers });
      const first = await events.body?.getReader().read();
      return [...bodies, Buffer.from(first?.value ?? []).toString()].join("\n");
    };
    for (const scope of ["all", "read-only"] as const) {
      const text = await answers(scope);
      assert.match(text, /"name":"coder"/);
      assert.match(text, /"HF_TOKEN":"\*\*\*"/);
      assert.match(text, /\/opt\/engine \*\*\*/);
      assert.doesNotMatch(text, /canary/, scope);
    }
    const text = await answers("admin");
    for (const canary of ["canary-env", "canary-args", "canary-command"]) assert.ok(text.includes(canary), canary);
  });
});
