import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PullBody } from "../../../src/api/management/pull-views.ts";
import { ApiFailure, call } from "../../shared/api.ts";
import { Drawer } from "../../shared/drawer.tsx";
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

/** Asks the server to pull a model, and the person first where a licence must be accepted. */
export function PullButton({ body, of, label, isMain, disabled, license, onDone }: PullButtonProps): JSX.Element {
  const [asked, setAsked] = useState<License>();
  const pull = async (accepted: object): Promise<void> => {
    await call("POST /api/models/pull", { body: { ...body, ...accepted } });
    onDone?.();
  };
  const press = async (): Promise<void> => {
    if (license !== undefined) {
      setAsked(license);
      return;
    }
    try {
      await pull({});
    } catch (error) {
      const found = licenseIn(error);
      if (found === undefined) throw error;
      setAsked(found);
    }
  };
  return (
    <>
      <Action
        {...(label === undefined ? {} : { label })}
        {...(isMain === undefined ? {} : { isMain })}
        {...(disabled === undefined ? {} : { disabled })}
        onClick={press}
      >
        Pull
      </Action>
      {asked !== undefined && (
        <Drawer title={`The licence of ${of}`} isDialog onClose={() => setAsked(undefined)}>
          <p>
            {of} comes under <OutsideLink href={asked.url}>{asked.name}</OutsideLink>, which forbids some use. Read it
            before you accept it.
          </p>
          <div class="row">
            <Action isMain onClick={() => pull({ accept_license: true })} onDone={() => setAsked(undefined)}>
              Accept and pull
            </Action>
          </div>
        </Drawer>
      )}
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
