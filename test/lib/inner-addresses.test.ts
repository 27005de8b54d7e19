import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { describe, it } from "node:test";
import { isInnerHost, outerLookup } from "../../src/lib/inner-addresses.ts";
import { listen } from "../support/listen.ts";
import { ask, openProvider } from "../gateway/providers/fixture.ts";

describe("addresses that lead inwards", () => {
  it("are this machine's, link-local addresses and those of metadata services, in any spelling", () => {
    const hosts = [
      "127.0.0.1",
      "127.1.2.3",
      "0.0.0.0",
      "169.254.169.254",
      "localhost",
      "a.localhost",
      "LOCALHOST.",
      "[::1]",
      "[::]",
      "[fe80::1]",
      "[::ffff:127.0.0.1]",
      "[fd00:ec2::254]",
      "[64:ff9b::7f00:1]",
      "[64:ff9b:1::7f00:1]",
      ...["2130706433", "0x7f.1", "0177.0.0.1", "127.1"].map((odd) => new URL(`http://${odd}/`).hostname),
      new URL("http://[::ffff:169.254.169.254]/").hostname,
      ...Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address)),
    ];
    for (const host of hosts) assert.ok(isInnerHost(host), host);
    for (const host of ["api.example.com", "192.168.7.20", "10.1.2.3", "[2606:4700::1]", "localhost.example.com"])
      assert.equal(isInnerHost(host), false, host);
  });

  it("are refused at the connection, although the name led elsewhere when it was written", async () => {
    let asked = 0;
    const server = createServer((_request, response) => {
      asked += 1;
      response.end("{}");
    });
    await listen(server);
    const { port }: AddressInfo = Object.assign({ port: 0, address: "", family: "" }, server.address());
    const addresses = [{ address: "127.0.0.1", family: 4 }];
    const spec = { baseUrl: `http://rebound.example:${port}/v1`, retries: 0 };
    await using open = openProvider(spec, { lookup: outerLookup((_name, _options, done) => done(null, addresses)) });
    const refused = ask(open.provider);
    await refused.ended;
    assert.equal(refused.failure?.code, "dispatch.upstream_unavailable");
    assert.equal(asked, 0);
    assert.match(
      open.problems[0] ?? "",
      /^rebound\.example leads to this machine or to its metadata: it was written over the API/,
    );
    server.close();
  });
});
