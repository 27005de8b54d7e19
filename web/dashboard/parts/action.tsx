import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../../shared/api.ts";
import { Button } from "../../shared/button.tsx";
import { ask } from "./ask.tsx";
import { useOnce } from "../../shared/once.ts";
import { comebacks } from "../live.ts";

interface ActionProps {
  readonly children: ComponentChildren;
  /** For a button whose text alone does not say what it acts on. */
  readonly label?: string;
  /** What its form is for: Enter in a field presses it. */
  readonly isMain?: boolean;
  readonly disabled?: boolean;
  /** Whether it acts without a press, once it is shown. */
  readonly isAtOnce?: boolean;
  /** Asked before it acts. */
  readonly confirm?: string;
  readonly onClick: () => Promise<unknown>;
  readonly onDone?: () => void;
}

/** A button that acts on the server: not twice at once, and its failure stands beside it. */
export function Action({
  children,
  label,
  isMain,
  disabled,
  isAtOnce = false,
  confirm,
  onClick,
  onDone,
}: ActionProps): JSX.Element {
  const [isBusy, once] = useOnce();
  const [failure, setFailure] = useState("");
  const act = async (): Promise<void> => {
    setFailure("");
    try {
      await onClick();
      onDone?.();
    } catch (error) {
      setFailure(messageOf(error));
    }
  };
  const press = async (): Promise<void> => {
    const yes = typeof children === "string" ? children : "Yes";
    if (confirm === undefined || (await ask({ text: confirm, yes }))) await once(act);
  };
  // Berth that did not answer answers again.
  useEffect(() => setFailure(""), [comebacks.value]);
  useEffect(() => {
    if (isAtOnce) void press();
  }, []);
  return (
    <>
      <Button
        label={label}
        isMain={isMain}
        isSubmit={isMain}
        isOff={disabled === true || isBusy}
        isBusy={isBusy}
        onClick={() => void press()}
      >
        {children}
      </Button>
      {failure !== "" && <span role="alert">{failure}</span>}
    </>
  );
}
