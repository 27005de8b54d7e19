import { after } from "node:test";
import { importEngineImage, importPauseImage } from "../support/kube/images.ts";
import { startCluster } from "../support/kube/node.ts";
import { runtimeConformance } from "../runtimes/conformance.ts";
import { ClusterSite } from "./pod-site.ts";

const cluster = await startCluster();
after(async () => await cluster[Symbol.asyncDispose]());
await importPauseImage(cluster);
await importEngineImage(cluster);

runtimeConformance("kubernetes", async () => await ClusterSite.make(cluster));
