import assert from "node:assert/strict";
import { it } from "node:test";
import { Network } from "../../../src/runtimes/docker/network.ts";
import { say } from "../../doubles/docker-daemon.ts";
import { daemonOf } from "./fixture.ts";

it("a network is made once, and not removed while a container is being made in it", async () => {
  const networks = new Set<string>();
  await using at = await daemonOf((asked, response) => {
    if (asked === "POST /networks/create") {
      networks.add("n1");
      say(response, 201, { Id: "n1" });
    } else if (asked === "DELETE /networks/n1") {
      networks.delete("n1");
      response.writeHead(204).end();
    } else
      say(
        response,
        200,
        Array.from(networks, (Id) => ({ Id })),
      );
  });
  const network = new Network(at.daemon, "instance");
  const made = Promise.withResolvers<void>();
  const ids: string[] = [];
  const making = [1, 2].map(() =>
    network.use(async (id) => {
      ids.push(id);
      await made.promise;
    }),
  );
  await network.remove();
  assert.deepEqual(ids, ["n1", "n1"]);
  assert.deepEqual([...networks], ["n1"]);
  made.resolve();
  await Promise.all(making);
  await network.remove();
  assert.deepEqual([...networks], []);
  await assert.rejects(
    network.use(() => Promise.reject(new Error("no such image"))),
    /no such image/,
  );
  await network.remove();
  assert.deepEqual([...networks], []);
});
