import { randomUUID } from "node:crypto";
import type { Kind } from "../../api/names.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { fencedClient } from "../../kubernetes/fenced-client.ts";
import { readLease } from "../../kubernetes/lease-election.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import { ContextFiles } from "../state/context-files.ts";
import { EngineLockFile } from "../state/engine-images.ts";
import { FitFigureFile } from "../state/fit-figures.ts";
import { RunRecord } from "../state/run-record.ts";
import { lastSpecOf } from "../judged-spec.ts";
import type { LeaderOptions, LeaderStore, OperatorInputs, StoreConfig } from "../opened-store.ts";
import { openSet } from "../document-set.ts";
import { installationSet } from "../sets.ts";
import { openSharedSets } from "../shared-sets.ts";
import { LeadershipLost } from "../store.ts";
import { openCluster, type OpenClient } from "./cluster.ts";
import { openDemandLeases } from "./demand.ts";
import { openEvents } from "./events.ts";
import { openFinalizers } from "./finalizers.ts";
import { recordOf, type LeaderLease } from "./leadership.ts";
import { operatorLease } from "./names.ts";
import { hasEnded, openObjectPublisher } from "./publisher.ts";
import { openRequests } from "./requests.ts";
import { lastPublishedOf } from "./slot-record.ts";
import { ObjectSource, type Before } from "./source.ts";

/** Between attempts to write the name of the installation again. */
const retryMs = 1000;

/** The store of the operator that leads. `owned` ends with the lease: some use no inputs. */
export async function openClusterLeaderStore(
  config: StoreConfig,
  lease: LeaderLease,
  options: LeaderOptions & { readonly openClient: OpenClient },
): Promise<{ readonly store: LeaderStore; readonly owned: AsyncDisposable }> {
  const { stateDir } = config;
  await using stack = new AsyncDisposableStack();
  const unfenced = await options.openClient();
  const fenced = fencedClient(unfenced, () => lease.check());
  const cluster = stack.use(await openCluster(() => Promise.resolve(fenced), options.onWarning));
  const { client, maps, onError } = cluster;
  const changed = new Subscribers<[names: readonly string[]]>();
  const before = (kind: Kind, object: KubeObject): Before | undefined => {
    const slot = kind === "Slot" ? lastPublishedOf(object, undefined, () => undefined) : undefined;
    return slot && lastSpecOf(slot);
  };
  const source = stack.use(await ObjectSource.open({ client, before, onError }, (names) => changed.notify(names)));
  const finalizers = stack.use(
    openFinalizers({
      client,
      unfenced,
      slots: () => source.objects("Slot"),
      note: (answer) => source.note("Slot", answer),
      onError,
    }),
  );
  const events = openEvents(client, onError);
  const publisher = stack.use(
    await openObjectPublisher({
      client,
      lease,
      source,
      finalizers,
      events,
      maps,
      secrets: cluster.bearers,
      onUnknown: options.onUnknown,
      onError,
    }),
  );
  const slots = await publisher.readSlots();
  source.forgetStates();
  const registry = publisher.readRegistry();
  for (const slot of slots) {
    const object = source.object("Slot", slot.name);
    // Its last operator ended between the two writes.
    if (object?.meta.isDeleted === true && hasEnded(slot)) await finalizers.remove(object);
  }
  const installation = stack.use(await openSet(maps, installationSet));
  const instance = installation.only()?.instance ?? randomUUID();
  const keepIfAbsent = async (): Promise<void> => {
    if (installation.only() === undefined) await installation.put({ instance });
  };
  let again: NodeJS.Timeout | undefined;
  let isClosed = false;
  stack.defer(() => {
    isClosed = true;
    clearTimeout(again);
  });
  const keep = (): void => {
    clearTimeout(again);
    keepIfAbsent().catch((error: unknown) => {
      onError(error);
      // The next operator writes its own.
      if (isClosed || error instanceof LeadershipLost) return;
      clearTimeout(again);
      again = setTimeout(keep, retryMs).unref();
    });
  };
  // Engines carry this name: the next operator must find it, and would take another one.
  stack.use(installation.watch(keep));
  await keepIfAbsent();
  const record = recordOf(await readLease(client, operatorLease));
  const owned = stack.move();
  const store: LeaderStore = {
    instance,
    before: { slots, registry, boot: record?.bootId },
    publisher,
    async inputs(): Promise<OperatorInputs> {
      await using parts = new AsyncDisposableStack();
      const demand = parts.use(await openDemandLeases(client, onError));
      const requests = parts.use(
        await openRequests(
          client,
          {
            get: (name) => source.object("Slot", name),
            note: (answer) => source.note("Slot", answer),
            watch: (onChange) => changed.add(onChange),
          },
          maps,
          {
            names: () => source.objects("Slot").map(({ meta }) => meta.name),
            onBadText(object, error) {
              onError(error);
              events.warn(object, "BadAnnotation", error.message);
            },
            onError,
          },
        ),
      );
      const shared = await openSharedSets(maps, parts);
      const engineLock = await EngineLockFile.openAnyway(stateDir, options.onWarning);
      const fitFigures = await FitFigureFile.open(stateDir, () =>
        options.onWarning(`${stateDir}/fit.json cannot be kept: figures of memory are made anew`),
      );
      parts.defer(() => fitFigures.settled());
      const run = await RunRecord.open(stateDir);
      const all = parts.move();
      return {
        source,
        demand,
        requests,
        ...shared,
        engineLock,
        fitFigures,
        run,
        contextFiles: (boot, owner) => new ContextFiles(stateDir, boot, owner),
        [Symbol.asyncDispose]: () => all.disposeAsync(),
      };
    },
    // Written while this operator leads: whoever leads afterwards has a name already.
    restoreInstance: () => Promise.resolve(),
  };
  return { store, owned };
}
