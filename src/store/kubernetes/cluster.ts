import { errorMessage } from "../../lib/error-code.ts";
import { FailureLog } from "../../lib/failure-log.ts";
import { connect } from "../../kubernetes/connection.ts";
import { openApiClient, type ApiClient } from "../../kubernetes/client.ts";
import type { ListWatch } from "../../kubernetes/list-watch.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { OpenDocuments } from "../documents.ts";
import { follow } from "./followed.ts";
import { Maps } from "./maps.ts";
import { collectionOf } from "./names.ts";
import type { SlotObjects } from "./requests.ts";

/** One client's view of the namespace. */
export interface Cluster extends AsyncDisposable {
  readonly client: ApiClient;
  readonly maps: OpenDocuments;
  /** Of the engines' bearers. */
  readonly bearers: OpenDocuments;
  /** Warns of a failure when it begins, and once a minute while it lasts. */
  readonly onError: (error: unknown) => void;
}

/** How a client is made: by this process's environment, or as a test says. */
export type OpenClient = () => Promise<ApiClient>;

export const clientOfEnvironment: OpenClient = async () => openApiClient(await connect(process.env));

/** Each Secret is followed by its name: the rights of this installation reach no other. */
export async function openCluster(openClient: OpenClient, onWarning: (line: string) => void): Promise<Cluster> {
  const failures = new FailureLog({
    onFailing: (error) => onWarning(`the cluster: ${errorMessage(error)}`),
    onEnd: () => undefined,
  });
  const onError = (error: unknown): void => failures.failed(error);
  await using stack = new AsyncDisposableStack();
  const client = stack.use(await openClient());
  const maps = stack.use(await Maps.open({ client, kind: "ConfigMap", onError }));
  const bearers = stack.use(await Maps.open({ client, kind: "Secret", only: "berth-bearers", onError }));
  const owned = stack.move();
  return {
    client,
    maps: (set, options) => maps.documents(set, options),
    bearers: (set, options) => bearers.documents(set, options),
    onError,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export interface FollowedSlots extends SlotObjects, AsyncDisposable {
  readonly watched: ListWatch;
}

/** The Slots of the namespace, followed once for all who read them. */
export async function followSlots(client: ApiClient, onError: (error: unknown) => void): Promise<FollowedSlots> {
  const subscribers = new Subscribers<[names: readonly string[]]>();
  const watched = await follow({
    client,
    path: collectionOf("Slot", client.namespace),
    onError,
    onChange: (names) => subscribers.notify(names),
  });
  return {
    watched,
    get: (name) => watched.get(name),
    note: (answer) => watched.note(answer),
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => watched[Symbol.asyncDispose](),
  };
}
