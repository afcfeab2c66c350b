"""What programs print, as real ones printed it (FreeIPMI 1.6.10, ipmitool 1.8.19) or as their sites document it."""

FREEIPMI = """\
Current Power                        : {watts}
Minimum Power over sampling duration : 48 watts
Maximum Power over sampling duration : 361 watts
Average Power over sampling duration : 157 watts
Time Stamp                           : 12/29/2023 - 08:58:00
Statistics reporting time period     : 1473439000 milliseconds
Power Measurement                    : {state}
"""
IPMITOOL = """
    Instantaneous power reading:                   {watts}
    Minimum during sampling period:                  3 Watts
    Maximum during sampling period:                900 Watts
    Average power reading over sample period:      345 Watts
    IPMI timestamp:                           11/30/26 00:01:10 UTC    Sampling period:                          00000005 Seconds.
    Power reading state is:                   {state}


"""  # noqa: E501 - one line, as ipmitool 1.8.19 prints it
IPMITOOL_OLD = """
    Instantaneous power reading:                    {watts}
    Minimum during sampling period:                  6 Watts
    Maximum during sampling period:                304 Watts
    Average power reading over sample period:       49 Watts
    IPMI timestamp:                           Thu Feb 15 08:36:01 2024
    Sampling period:                          00000001 Seconds.
    Power reading state is:                   {state}

"""
IPMIUTIL = """\
ipmiutil dcmi ver 3.17
-- BMC version 6.10, IPMI version 2.0
DCMI Version:                   1.5
DCMI Power Management:          Supported
DCMI System Interface Access:   Supported
  Current Power:                   {watts}
  Min Power over sample duration:  6 Watts
  Max Power over sample duration:  304 Watts
  Avg Power over sample duration:  49 Watts
  Timestamp:                       Thu Feb 15 09:37:32 2024

  Sampling period:                 1000 ms
  Power reading state is:          {state}
  Exception Action:  OEM defined
  Power Limit:       896 Watts (inactive)
  Correction Time:   62914560 ms
  Sampling period:   1472 sec
ipmiutil dcmi, completed successfully
"""
CAPMC = (
    '{{"start_time":"2015-04-01 17:02:10","avg":{avg},"min":5748,"max":6132,"window_len":600,"e":{code},"err_msg":""}}'
)
ACTIVE = {"freeipmi": "Active", "ipmitool": "activated", "ipmitool_old": "activated", "ipmiutil": "active"}
INACTIVE = {
    "freeipmi": "Not Available",
    "ipmitool": "deactivated",
    "ipmitool_old": "deactivated",
    "ipmiutil": "not active",
}
TEXTS = {"freeipmi": FREEIPMI, "ipmitool": IPMITOOL, "ipmitool_old": IPMITOOL_OLD, "ipmiutil": IPMIUTIL}


def printed(program: str, watts: str, state: str | None = None) -> str:
    """Return what a program prints for a power and a state; without one, that of an active measurement."""
    return TEXTS[program].format(watts=watts, state=ACTIVE[program] if state is None else state)
