import { after } from "node:test";
import { sharedCluster } from "../support/kube/shared.ts";
import { runtimeConformance } from "../runtimes/conformance.ts";
import { ClusterSite } from "./pod-site.ts";

const cluster = await sharedCluster();
after(async () => await cluster[Symbol.asyncDispose]());

runtimeConformance("kubernetes", async () => await ClusterSite.make(cluster), { concurrency: 3 });
