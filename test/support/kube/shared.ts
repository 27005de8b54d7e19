import { installKinds } from "./crds.ts";
import {
  apiServerFactsSchema,
  openApiServer,
  startControlPlane,
  type ApiServer,
  type ControlPlane,
} from "./control-plane.ts";
import { importEngineImage, importPauseImage } from "./images.ts";
import { startCluster, withNode, type Cluster, type NodeApiServer } from "./node.ts";

/** `asyncDispose` ends what the file has started itself, and nothing else. */
export type SharedPlane = ApiServer & AsyncDisposable;
export type SharedCluster = NodeApiServer & AsyncDisposable;

/** A control plane with controllers and Berth's kinds. */
export async function startSharedPlane(): Promise<ControlPlane> {
  await using stack = new AsyncDisposableStack();
  const plane = stack.use(await startControlPlane({ controllers: true }));
  await installKinds(plane);
  stack.move();
  return plane;
}

/** A cluster with a node, Berth's kinds, and the images that the Pods of the tests run. */
export async function startSharedCluster(): Promise<Cluster> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await startCluster());
  await installKinds(cluster);
  await importPauseImage(cluster);
  await importEngineImage(cluster);
  stack.move();
  return cluster;
}

/**
 * The control plane that test/support/kube/with-shared.ts has started for many files, since a start takes 10 CPU seconds; a
 * file that runs by itself starts one. Tests use separate namespaces, and neither end the API server nor change the kinds.
 */
export async function sharedPlane(): Promise<SharedPlane> {
  const text = process.env["BERTH_TEST_PLANE"];
  return text === undefined
    ? await startSharedPlane()
    : kept(openApiServer(apiServerFactsSchema.parse(JSON.parse(text))));
}

/** The same of `startSharedCluster`. Its files run one after the other: the node is one. */
export async function sharedCluster(): Promise<SharedCluster> {
  const text = process.env["BERTH_TEST_CLUSTER"];
  return text === undefined
    ? await startSharedCluster()
    : kept(withNode(openApiServer(apiServerFactsSchema.parse(JSON.parse(text)))));
}

/** Goes on after this process. */
function kept<Server extends ApiServer>(server: Server): Server & AsyncDisposable {
  return { ...server, [Symbol.asyncDispose]: () => Promise.resolve() };
}
