import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { scriptedEngine, type Script } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

/** An engine whose page has that text. */
const telling =
  (text: string): Script =>
  (response) => {
    response.writeHead(200, { "content-type": "text/plain; version=0.0.4" });
    response.end(text);
  };

async function page(gateway: TestGateway): Promise<string> {
  const answer = await fetch(new URL("/api/metrics/engines", gateway.url));
  assert.equal(answer.status, 200);
  assert.match(answer.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  return await answer.text();
}

const good = "# HELP kv How full\n# TYPE kv gauge\nkv 0.5\n";
const goodPage = good.replace("kv 0.5", 'kv{slot="good",role="main",ordinal="0"} 0.5');

/** On a slow machine an engine may once have answered too late. */
async function pageIs(gateway: TestGateway, wanted: string): Promise<void> {
  await until("the page is as wanted", async () => {
    assert.equal(await page(gateway), wanted);
    return true;
  });
}

describe("engines' own metrics", () => {
  it("have slot labels, one head per family and no name of Berth's, and are read with the engine's bearer for this page alone", async () => {
    await using one = await scriptedEngine(telling(good));
    const told = '# TYPE kv gauge\nkv{slot="forged"} 1\nloose 3\nberth_requests_total 99\n';
    await using two = await scriptedEngine(telling(told));
    const bearerList = [{ role: "main", ordinal: 0, bearer: "s3cret" }] as const;
    await using gateway = await startGateway({
      slots: { good: { port: one.port, bearerList: [...bearerList] }, other: { port: two.port }, cold: {} },
    });
    await (await fetch(new URL("/metrics", gateway.url))).text();
    assert.equal(one.seen.length, 0, "another page needs none of them");
    const labels = 'slot="other",role="main",ordinal="0"';
    const others = `kv{${labels},exported_slot="forged"} 1\n# TYPE loose untyped\nloose{${labels}} 3\n`;
    await pageIs(gateway, `${goodPage}${others}`);
    assert.equal(one.seen[0]?.headers.authorization, "Bearer s3cret");
    assert.deepEqual([one.seen[0]?.path, two.seen[0]?.headers.authorization], ["/metrics", undefined]);
  });

  it("are complete where other engines send without end, answer nothing, or break the rules", async () => {
    const endless: Script = (response) => {
      response.writeHead(200, { "content-type": "text/plain" });
      const more = (): void => {
        while (!response.destroyed && response.write(`${"a".repeat(65_536)}\n`));
      };
      response.on("drain", more);
      more();
    };
    const hostile: readonly (readonly [script: Script, told: RegExp])[] = [
      [endless, /its answer is above 1 MiB|did not answer in time/],
      [() => undefined, /it did not answer in time/],
      [(response) => void response.destroy(), /it did not answer in time, or not at all/],
      [(response) => void response.writeHead(404).end("no"), /it answered 404/],
      [telling("<!doctype html>\n<p>a 1</p>\n"), /no metrics in its answer/],
      [telling("# TYPE kv counter\nkv 7\n"), /of another type than at the engines before: kv/],
    ];
    await using bad = await scriptedEngine();
    await using fine = await scriptedEngine(telling(good));
    // The first in order is the good one.
    await using gateway = await startGateway({ slots: { good: { port: fine.port }, zbad: { port: bad.port } } });
    for (const [script, told] of hostile) {
      bad.answer(script);
      // On a slow machine either may once have answered too late.
      const comment = await until("the good engine's part is whole, and the other's fault is named", async () => {
        const text = await page(gateway);
        assert.ok(text.endsWith(goodPage), text.slice(-500));
        const found = text.slice(0, -goodPage.length);
        assert.match(found, told);
        return found;
      });
      assert.match(comment, /^# slot zbad, main 0: [^\n]+\n$/);
    }
  });
});
