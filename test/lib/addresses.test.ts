import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AddressSet, canonicalAddress, networkOf } from "../../src/lib/addresses.ts";
import { isLoopback, localUrl } from "../../src/lib/listen-address.ts";
import { fc } from "../support/fast-check.ts";

describe("addresses", () => {
  it("are in a block or not", () => {
    const rows: readonly (readonly [block: string, address: string, isIn: boolean])[] = [
      ["10.0.0.0/8", "10.255.0.1", true],
      ["10.0.0.0/8", "11.0.0.1", false],
      ["192.168.1.7", "192.168.1.7", true],
      ["192.168.1.7", "192.168.1.8", false],
      ["0.0.0.0/0", "203.0.113.9", true],
      ["0.0.0.0/0", "::1", false],
      ["::1/128", "::1", true],
      ["::1", "::2", false],
      ["2001:db8::/32", "2001:db8:1::5", true],
      ["2001:db8::/32", "2001:db9::5", false],
      ["::/0", "fe80::1", true],
      ["10.0.0.0/8", "a name", false],
    ];
    for (const [block, address, isIn] of rows) {
      assert.equal(new AddressSet([block]).has(address), isIn, `${address} in ${block}`);
    }
    assert.equal(new AddressSet([]).has("127.0.0.1"), false);
    assert.equal(new AddressSet(["10.0.0.0/8", "::1"]).has("::1"), true);
  });

  it("have one spelling", () => {
    for (const [text, address] of [
      ["::ffff:127.0.0.1", "127.0.0.1"],
      ["::FFFF:10.0.0.9", "10.0.0.9"],
      // As a URL spells it.
      ["::ffff:c0a8:107", "192.168.1.7"],
      ["fe80::1%eth0", "fe80::1"],
      ["2001:DB8::1", "2001:db8::1"],
    ] as const)
      assert.equal(canonicalAddress(text), address);
    for (const text of [undefined, "", "unknown", "127.0.0.1:80", "[::1]", "1.2.3", "::ffff:999.0.0.1"]) {
      assert.equal(canonicalAddress(text), undefined, String(text));
    }
  });

  it("of IPv6 count as the /64 of one customer", () => {
    assert.equal(networkOf("203.0.113.9"), "203.0.113.9");
    assert.equal(networkOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
    assert.equal(networkOf("2001:db8::6"), "2001:db8:0:0::/64");
    assert.equal(networkOf("::1"), "0:0:0:0::/64");
    assert.equal(networkOf("2001:0db8:0001::"), "2001:db8:1:0::/64");
    assert.equal(networkOf("64:ff9b::192.0.2.33"), "64:ff9b:0:0::/64");
    const group = fc.integer({ min: 0, max: 0xffff }).map((value) => value.toString(16));
    const groups = (count: number) => fc.array(group, { minLength: count, maxLength: count });
    fc.assert(
      fc.property(groups(4), groups(4), groups(4), (network, a, b) => {
        const first = networkOf([...network, ...a].join(":"));
        assert.equal(first, networkOf([...network, ...b].join(":")));
        assert.equal(first, `${network.join(":")}::/64`);
      }),
    );
  });
});

describe("where something listens", () => {
  it("distinguishes loopback from the network", () => {
    for (const host of ["127.0.0.1", "127.9.9.9", "::1", "localhost"]) assert.equal(isLoopback(host), true, host);
    for (const host of ["0.0.0.0", "::", "192.168.1.2", "example.org", "127.0.0.1.example.org", ""])
      assert.equal(isLoopback(host), false, host);
  });

  it("gives the address by which this machine reaches it, which `fetch` can read", () => {
    for (const [host, local] of [
      ["0.0.0.0", "127.0.0.1"],
      ["::", "[::1]"],
      ["127.0.0.1", "127.0.0.1"],
      ["127.0.0.2", "127.0.0.2"],
      ["::1", "[::1]"],
      ["localhost", "localhost"],
      ["192.168.1.2", "192.168.1.2"],
      ["fd00::1", "[fd00::1]"],
    ] as const) {
      const url = localUrl(host, 8080);
      assert.equal(url, `http://${local}:8080`);
      assert.equal(new URL(url).origin, url);
    }
  });
});
