import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { ContainerView } from "../../../src/runtimes/docker/view.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

describe("the view of containers", () => {
  it("leaves no stream of events open when the list that follows it fails", async () => {
    await using stack = new AsyncDisposableStack();
    const dir = stack.use(await tempDir());
    const path = join(dir.path, "daemon.sock");
    const open = new Set<ServerResponse>();
    let tries = 0;
    // A DOUBLE of a daemon that tells of events and cannot list.
    const server = createServer((request, response) => {
      if (request.url?.includes("/events") !== true) {
        response.writeHead(500, { "content-type": "application/json" }).end('{"message":"no list today"}');
        return;
      }
      tries += 1;
      open.add(response);
      response.once("close", () => open.delete(response));
      response.writeHead(200).flushHeaders();
    });
    server.listen(path);
    await once(server, "listening");
    stack.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    const view = new ContainerView({ daemon: new Daemon(path), instance: "i", onSlot: () => undefined });
    stack.defer(() => view.close());
    await until("several tries", () => tries >= 4);
    await until("the earlier ones are closed", () => open.size <= 1);
    assert.equal(view.isUp, false);
    await view.close();
    await until("the last one too", () => open.size === 0);
  });
});
