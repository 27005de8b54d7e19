import assert from "node:assert/strict";
import { it } from "node:test";
import { exchangeFailure } from "../../../src/gateway/relay/engine-failure.ts";
import { connectionFailure } from "../../../src/gateway/upstreams/provider-failure.ts";
import { ExchangeError } from "../../../src/lib/exchange.ts";
import { runScarce } from "../../support/out-of-files.ts";

it("a connection that this process cannot open is reported as its own shortage, not as a failure of the engine or provider", async () => {
  const client = new URL("../../../src/lib/http1/client.ts", import.meta.url).href;
  const phase = await runScarce(`
    const { EnginePool } = await import(${JSON.stringify(client)});
    const open = exhaust();
    const pool = new EnginePool({ host: "127.0.0.1", port: 9 });
    const nothing = () => undefined;
    const { phase } = await new Promise((onError) => {
      const timeouts = { firstByteMs: 0, idleMs: 0 };
      pool.send({ method: "GET", path: "/", accept: "*/*" }, { timeouts }, { onHead: nothing, onData: nothing, onEnd: nothing, onError });
    });
    giveBack(open);
    console.log(phase);`);
  assert.equal(phase, "shortage");
  const ours = exchangeFailure(new ExchangeError("shortage", "connect EMFILE"));
  const { failure, outcome } = connectionFailure("acme", new ExchangeError("shortage", "connect EMFILE"), false);
  for (const { status, code, message } of [ours, failure]) {
    assert.deepEqual([status, code], [503, "system.overloaded"]);
    assert.match(message, /^the gateway .*RLIMIT_NOFILE/);
  }
  assert.equal(outcome, "shortage");
});
