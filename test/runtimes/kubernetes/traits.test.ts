import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podTraits } from "../../../src/runtimes/kubernetes/traits.ts";

const config = { modelsDir: "/models" };

describe("the address on which engines of Pods listen", () => {
  const cases: readonly [title: string, env: Readonly<Record<string, string>>, address: string][] = [
    ["is of IPv4 outside of every Pod", {}, "0.0.0.0"],
    ["is of IPv4 where the API server's Service is", { KUBERNETES_SERVICE_HOST: "10.96.0.1" }, "0.0.0.0"],
    ["is of IPv4 where the API server is named", { KUBERNETES_SERVICE_HOST: "kubernetes.default" }, "0.0.0.0"],
    ["is of IPv6 where the API server's Service is", { KUBERNETES_SERVICE_HOST: "fd00:10:96::1" }, "::"],
    ["is of this Pod's family first", { KUBERNETES_SERVICE_HOST: "10.96.0.1", POD_IP: "fd00:10:244::7" }, "::"],
  ];
  for (const [title, env, address] of cases) {
    it(title, () => assert.equal(podTraits(config, env).addressing.listenHost, address));
  }
});

describe("the machine of Pods", () => {
  const cases: readonly [
    title: string,
    podModels: string | undefined,
    node: string | undefined,
    isHere: true | undefined,
  ][] = [
    ["is this node where the models are a directory of it", "path:/srv/models", "nas", true],
    ["is any node where the models are a claim", "claim:berth-models", "nas", undefined],
    ["is any node where this node's name is not known", "path:/srv/models", undefined, undefined],
  ];
  for (const [title, podModels, node, isHere] of cases) {
    it(title, () => {
      const env = { KUBERNETES_SERVICE_HOST: "10.96.0.1", NODE_NAME: node };
      assert.equal(podTraits({ ...config, podModels }, env).isOnThisMachine, isHere);
    });
  }
});
