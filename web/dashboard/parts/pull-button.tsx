import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PullBody } from "../../../src/api/management/pull-views.ts";
import { ApiFailure, call } from "../../shared/api.ts";
import { Action } from "./action.tsx";
import { OutsideLink } from "./outside-link.tsx";

export interface License {
  readonly name: string;
  readonly url: string;
}

interface PullButtonProps {
  readonly body: PullBody;
  /** What the licence is asked for. */
  readonly of: string;
  /** For a button that stands in a table. */
  readonly label?: string;
  readonly isMain?: boolean;
  readonly disabled?: boolean;
  /** A licence that must be accepted; undefined: the server may still ask for one. */
  readonly license?: License | undefined;
  readonly onDone?: () => void;
}

/** Asks the server to fetch a model; asks the person first where the licence must be accepted. */
export function PullButton({ body, of, label, isMain, disabled, license, onDone }: PullButtonProps): JSX.Element {
  const [asked, setAsked] = useState<License>();
  const [accepts, setAccepts] = useState(false);
  const restricting = license ?? asked;
  const pull = async (): Promise<void> => {
    const accepted = restricting === undefined ? {} : { accept_license: accepts };
    try {
      await call("/api/models/pull", { method: "POST", body: { ...body, ...accepted } });
    } catch (error) {
      const found = licenseIn(error);
      if (found === undefined || restricting !== undefined) throw error;
      setAsked(found);
      return;
    }
    onDone?.();
  };
  return (
    <>
      {restricting !== undefined && (
        <div role={asked === undefined ? undefined : "status"}>
          <label>
            <input type="checkbox" checked={accepts} onChange={(event) => setAccepts(event.currentTarget.checked)} /> I
            accept the licence of {of}
          </label>{" "}
          <OutsideLink href={restricting.url}>{restricting.name}</OutsideLink>
        </div>
      )}
      <Action
        {...(label === undefined ? {} : { label })}
        {...(isMain === undefined ? {} : { isMain })}
        disabled={disabled === true || (restricting !== undefined && !accepts)}
        onClick={pull}
      >
        Pull
      </Action>
    </>
  );
}

/** The licence that the server wants to be accepted; undefined: it refused for another reason. */
function licenseIn(error: unknown): License | undefined {
  const details = error instanceof ApiFailure ? error.details : undefined;
  if (typeof details !== "object" || details === null) return undefined;
  if (!("license" in details) || !("license_url" in details)) return undefined;
  return { name: String(details.license), url: String(details.license_url) };
}
