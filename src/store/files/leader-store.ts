import { existsSync } from "node:fs";
import { join } from "node:path";
import { directoryOfKind } from "../../api/names.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { everySecond } from "../../lib/pulse.ts";
import { openSet } from "../document-set.ts";
import { documentsInFiles } from "../documents.ts";
import { sets } from "../sets.ts";
import { openSharedSets } from "../shared-sets.ts";
import { ContextFiles } from "../state/context-files.ts";
import { openDemandStore } from "../state/demand.ts";
import { EngineLockFile } from "../state/engine-images.ts";
import { FitFigureFile } from "../state/fit-figures.ts";
import { writeFormat } from "../state/format.ts";
import { instancePath, openInstance, restoreInstanceToStay } from "../state/instance.ts";
import { clearLeftovers } from "../state/leftovers.ts";
import { readOperator, readRegistry } from "../state/published.ts";
import { openPublisher } from "../state/publisher.ts";
import { openRemovals } from "../state/removals.ts";
import { requestStore } from "../state/requests.ts";
import { RunRecord } from "../state/run-record.ts";
import type { LeaderOptions, LeaderStore, OperatorInputs, StoreConfig } from "../opened-store.ts";
import type { Lease } from "../store.ts";
import { openFileSource } from "./file-source.ts";

/** The store of the operator that leads. `lease`: nothing is published once it is lost. */
export async function openLeaderStore(config: StoreConfig, lease: Lease, options: LeaderOptions): Promise<LeaderStore> {
  const { stateDir, configDir } = config;
  const instance = await openInstance(stateDir);
  const publisher = await openPublisher(stateDir, { check: () => lease.check(), onUnknown: options.onUnknown });
  const slots = await publisher.readSlots();
  const registry = readRegistry(stateDir);
  const before = { slots, registry, boot: (await readOperator(stateDir))?.record.bootId };
  return {
    instance,
    before,
    publisher,
    async inputs(): Promise<OperatorInputs> {
      await using stack = new AsyncDisposableStack();
      if (options.version !== undefined) {
        await writeFormat(stateDir, options.version).catch((error: unknown) =>
          options.onWarning(`the format of the state could not be written down: ${errorMessage(error)}`),
        );
      }
      await clearLeftovers(
        stateDir,
        Object.values(directoryOfKind).map((name) => join(configDir, name)),
      );
      const parts = [instancePath(stateDir), join(stateDir, "slots")];
      const checks = everySecond(() => {
        const deleted = parts.find((path) => !existsSync(path));
        if (deleted === undefined) return;
        checks[Symbol.dispose]();
        options.onDeleted?.(deleted);
      });
      stack.use(checks);
      const removals = stack.use(await openRemovals(stateDir));
      const seedRegistry = registry === undefined ? {} : { seedRegistry: registry };
      const source = stack.use(await openFileSource({ configDir, seed: slots, ...seedRegistry, removals }));
      const demand = stack.use(await openDemandStore(stateDir));
      const open = documentsInFiles(stateDir);
      const requests = stack.use(requestStore(await openSet(open, sets.slotRequests)));
      const shared = await openSharedSets(open, stack);
      const engineLock = await EngineLockFile.openAnyway(stateDir, options.onWarning);
      const fitFigures = await FitFigureFile.open(stateDir, () =>
        options.onWarning(`${stateDir}/fit.json cannot be kept: figures of memory are made anew`),
      );
      stack.defer(() => fitFigures.settled());
      const run = await RunRecord.open(stateDir);
      const owned = stack.move();
      const dispose = { [Symbol.asyncDispose]: () => owned.disposeAsync() };
      const contextFiles: OperatorInputs["contextFiles"] = (boot, owner) => new ContextFiles(stateDir, boot, owner);
      return {
        source,
        demand,
        requests,
        ...shared,
        engineLock,
        fitFigures,
        run,
        contextFiles,
        ...dispose,
      };
    },
    restoreInstance: () => restoreInstanceToStay(stateDir, instance),
  };
}
