import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isLoopback, localUrl } from "../../src/lib/listen-address.ts";

describe("where something listens", () => {
  it("distinguishes loopback from the network", () => {
    for (const host of ["127.0.0.1", "127.9.9.9", "::1", "localhost"]) assert.equal(isLoopback(host), true, host);
    for (const host of ["0.0.0.0", "::", "192.168.1.2", "example.org", "127.0.0.1.example.org", ""]) {
      assert.equal(isLoopback(host), false, host);
    }
  });

  it("gives the address by which this machine reaches it, which `fetch` can read", () => {
    const urls = ["0.0.0.0", "::", "127.0.0.1", "127.0.0.2", "::1", "localhost", "192.168.1.2", "fd00::1"].map((host) =>
      localUrl(host, 8080),
    );
    assert.deepEqual(urls, [
      "http://127.0.0.1:8080",
      "http://[::1]:8080",
      "http://127.0.0.1:8080",
      "http://127.0.0.2:8080",
      "http://[::1]:8080",
      "http://localhost:8080",
      "http://192.168.1.2:8080",
      "http://[fd00::1]:8080",
    ]);
    for (const url of urls) assert.equal(new URL(url).origin, url);
  });
});
