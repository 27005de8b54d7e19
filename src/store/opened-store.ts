import type { Config } from "../api/config.ts";
import type { EngineLock } from "../api/engine-images.ts";
import type { WrittenFormat } from "../api/state-format.ts";
import type { PublishedOperator, PublishedRegistry, PublishedSlot } from "../api/status.ts";
import type { TokenStore } from "./auth/tokens.ts";
import type { ManifestWriter } from "./files/writer.ts";
import type { SharedSets } from "./shared-sets.ts";
import type { FileOwner } from "./state/context-directory.ts";
import type { ContextFiles } from "./state/context-files.ts";
import type { DiscoveredStore } from "./state/discovered.ts";
import type { EngineLockFile } from "./state/engine-images.ts";
import type { FitFigureFile } from "./state/fit-figures.ts";
import type { Liveness } from "./state/liveness.ts";
import type { RunRecord } from "./state/run-record.ts";
import type { OpenUpstreams } from "./state/open-upstreams.ts";
import type {
  DemandStore,
  DemandWriter,
  DesiredSource,
  LeadOptions,
  Lease,
  OtherDemand,
  PublishedStore,
  Publisher,
  RequestStore,
} from "./store.ts";

export interface LeaderOptions {
  readonly onWarning: (line: string) => void;
  /** Another version has published a value that this version does not know. */
  readonly onUnknown: (what: string) => void;
  /** Called at most once, with the path of a part of the state that somebody has deleted: the operator must end. */
  readonly onDeleted?: (path: string) => void;
  /** The operator's version, for the record of the state's format; absent: this is no operator. */
  readonly version?: string;
}

/** The store of the operator that leads. */
export interface LeaderStore {
  /** The name of this installation on shared runtimes, for good. */
  readonly instance: string;
  /** The state that earlier operators published. */
  readonly before: {
    readonly slots: readonly PublishedSlot[];
    readonly registry: PublishedRegistry | undefined;
    /** The boot of the last operator's machine. */
    readonly boot: string | undefined;
  };
  readonly publisher: Publisher;
  /** The inputs that it follows from now on. */
  inputs(): Promise<OperatorInputs>;
  /** For the next operator, where the state was deleted: engines carry the instance's name. */
  restoreInstance(): Promise<void>;
}

export interface OperatorInputs extends SharedSets, AsyncDisposable {
  readonly source: DesiredSource;
  readonly demand: DemandStore;
  readonly requests: RequestStore;
  readonly engineLock: EngineLockFile;
  readonly fitFigures: FitFigureFile;
  readonly run: RunRecord;
  /** The saved contexts of engines of that boot. `owner`: their user, where it is not this process's. */
  contextFiles(boot: string, owner: () => Promise<FileOwner | undefined>): ContextFiles;
}

export interface GatewayStoreOptions extends LeaderOptions {
  /** The name of one start of one gateway. */
  readonly gateway: string;
  readonly onDiscoveredError: (error: unknown) => void;
}

/** The store of a gateway. Its demand is disposed before. */
export interface GatewayStore extends SharedSets, AsyncDisposable {
  readonly published: PublishedStore;
  readonly demand: DemandWriter;
  readonly others: OtherDemand;
  readonly requests: RequestStore;
  readonly discovered: DiscoveredStore;
  readonly openUpstreams: OpenUpstreams;
  readonly tokens: TokenStore;
  /** Reads a key of a Secret of the store's cluster; absent: there is none. Undefined without it. Rejects with ApiError. */
  readonly readSecret?: (name: string, key: string) => Promise<string | undefined>;
  /** Records whether authentication is on in this gateway, for commands that create tokens later. */
  noteAuthMode(isEnabled: boolean): Promise<void>;
  readonly writer: ManifestWriter;
}

export type StoreConfig = Pick<Config, "store" | "stateDir" | "configDir" | "readOnly">;

/**
 * The store of desired and published state. Operator, gateways and tools use only this interface (`src/store/open.ts`);
 * its implementation is hidden.
 */
export interface Store {
  /** The store was never used: there are no engines and no operator. */
  isUnused(): boolean;
  /**
   * Rejects with `LockHeld` where another operator leads and `standby` is absent, and with `StateTooNew` where a later
   * version has left a state that this version does not read.
   */
  lead(options: LeadOptions): Promise<Lease>;
  /** The pid of the leading operator; undefined without one. */
  leader(): Promise<number | undefined>;
  forLeader(lease: Lease, options: LeaderOptions): Promise<LeaderStore>;
  forGateway(options: GatewayStoreOptions): Promise<GatewayStore>;
  /** The number of the state's format and the version that wrote it; undefined: no operator has written it. */
  format(): Promise<WrittenFormat | undefined>;
  /** The record of an operator, in one read; undefined without a readable one. */
  operator(): Promise<{ readonly record: PublishedOperator; readonly liveness: Liveness } | undefined>;
  /** Whether a gateway of this machine lives; undefined where it cannot be read. */
  hasLiveGateway(): Promise<boolean | undefined>;
  tokens(): Promise<TokenStore>;
  /** Whether the last gateway required credentials; undefined: not recorded yet. */
  lastAuthMode(): Promise<boolean | undefined>;
  /** Digests of pulled images. Throws BadImagesFile. */
  engineLock(): Promise<EngineLock>;
}
