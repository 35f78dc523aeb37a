package redfishtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

func (s *Service) etag() string { return fmt.Sprintf(`"%d"`, s.version) }

func (s *Service) system(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	at, power := "/redfish/v1/Systems/"+id, "Off"
	if s.machine.On() {
		power = "On"
	}
	boot := object{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI"}
	if from := s.from[id]; from != "" {
		boot["BootSourceOverrideEnabled"], boot["BootSourceOverrideTarget"] = "Once", from
	}
	if len(s.o.Targets) > 0 {
		boot["BootSourceOverrideTarget@Redfish.AllowableValues"] = s.o.Targets
	}
	reset := object{"target": at + "/Actions/ComputerSystem.Reset"}
	switch {
	case s.o.Elsewhere != "":
		reset["target"] = s.o.Elsewhere
	case s.o.AsInfo:
		reset["@Redfish.ActionInfo"] = at + "/ResetActionInfo"
	case len(s.o.Resets) > 0:
		reset["ResetType@Redfish.AllowableValues"] = s.o.Resets
	}
	body := object{"@odata.id": at, "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", "Id": id, "Name": "System", "SystemType": "Physical",
		"UUID": s.o.Machines[id], "PowerState": power, "Boot": boot, "Status": object{"State": "Enabled", "Health": "OK"},
		"Actions": object{"#ComputerSystem.Reset": reset}}
	if s.o.Settings {
		body["@Redfish.Settings"] = object{"@odata.type": "#Settings.v1_3_5.Settings", "SettingsObject": object{"@odata.id": at + "/Settings"}}
	}
	w.Header().Set("ETag", s.etag())
	answer(w, http.StatusOK, body)
}

func (s *Service) info(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, object{"@odata.id": r.URL.Path, "@odata.type": "#ActionInfo.v1_4_2.ActionInfo", "Id": "ResetActionInfo", "Name": "Reset Action Info",
		"Parameters": []object{{"Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": s.o.Resets}}})
}

func (s *Service) settings(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", s.etag())
	answer(w, http.StatusOK, object{"@odata.id": r.URL.Path, "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", "Id": "Settings", "Name": "Settings"})
}

func (s *Service) patch(w http.ResponseWriter, r *http.Request) {
	if s.o.Settings {
		refuse(w, http.StatusBadRequest, "Base.1.18.PropertyNotWritable", "The property Boot is a read only property and cannot be assigned a value.")
		return
	}
	s.patchSettings(w, r)
}

// patchSettings changes a machine's boot source. It requires the tag of the resource's state.
func (s *Service) patchSettings(w http.ResponseWriter, r *http.Request) {
	if s.stale > 0 {
		s.stale--
		s.version++
	}
	switch r.Header.Get("If-Match") {
	case s.etag():
	case "":
		refuse(w, http.StatusPreconditionRequired, "Base.1.18.PreconditionRequired", "A precondition header or annotation is required.")
		return
	default:
		refuse(w, http.StatusPreconditionFailed, "Base.1.18.PreconditionFailed", "The ETag supplied did not match the current ETag of the resource.")
		return
	}
	var body struct {
		Boot map[string]any
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, "Base.1.18.MalformedJSON", err.Error())
		return
	}
	for name := range body.Boot {
		if name != "BootSourceOverrideEnabled" && name != "BootSourceOverrideTarget" && name != "BootSourceOverrideMode" {
			refuse(w, http.StatusBadRequest, "Base.1.18.PropertyNotWritable", "The property "+name+" is a read only property and cannot be assigned a value.")
			return
		}
	}
	from, _ := body.Boot["BootSourceOverrideTarget"].(string)
	if body.Boot["BootSourceOverrideEnabled"] != "Once" || from == "" || len(s.o.Targets) > 0 && !slices.Contains(s.o.Targets, from) {
		refuse(w, http.StatusBadRequest, "Base.1.18.PropertyValueNotInList", "The value is not in the list of acceptable values.")
		return
	}
	s.from[r.PathValue("id")] = from
	s.version++
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) reset(w http.ResponseWriter, r *http.Request) {
	var body struct{ ResetType string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(s.o.Resets) > 0 && !slices.Contains(s.o.Resets, body.ResetType) {
		refuse(w, http.StatusBadRequest, "Base.1.18.ActionParameterNotSupported", "The parameter ResetType is not supported.")
		return
	}
	if on := s.machine.On(); on == (body.ResetType == "On" || body.ResetType == "ForceOn") {
		refuse(w, http.StatusConflict, "Base.1.18.ResourceInUse", "The machine's power is so already, or it is off.")
		return
	}
	id := r.PathValue("id")
	if !s.o.FailTasks {
		if err := s.machine.Reset(body.ResetType, s.from[id]); err != nil {
			refuse(w, http.StatusInternalServerError, "Base.1.18.InternalError", err.Error())
			return
		}
		if body.ResetType != "ForceOff" && body.ResetType != "GracefulShutdown" {
			delete(s.from, id) // once
		}
		s.version++
	}
	if !s.o.Tasks {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	task := fmt.Sprint(len(s.tasks) + 1)
	s.tasks[task] = 2
	w.Header().Set("Location", s.URL+"/redfish/v1/TaskService/TaskMonitors/"+task)
	w.Header().Set("Retry-After", "0")
	answer(w, http.StatusAccepted, task7(task, "New", ""))
}

func task7(id, state, text string) object {
	return object{"@odata.id": "/redfish/v1/TaskService/Tasks/" + id, "@odata.type": "#Task.v1_7_4.Task", "Id": id, "Name": "Reset", "TaskState": state,
		"TaskMonitor": "/redfish/v1/TaskService/TaskMonitors/" + id, "Messages": []object{{"MessageId": "Base.1.18.GeneralError", "Message": text}}}
}

// monitor answers 202 while a task runs, then once with its result; then the task is unknown.
func (s *Service) monitor(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	left, ok := s.tasks[id]
	switch {
	case !ok || left < 0:
		refuse(w, http.StatusNotFound, "Base.1.18.ResourceMissingAtURI", "The resource was not found.")
	case left > 0:
		s.tasks[id]--
		w.Header().Set("Retry-After", "0")
		answer(w, http.StatusAccepted, task7(id, "Running", ""))
	case s.o.FailTasks:
		s.tasks[id] = -1
		answer(w, http.StatusOK, task7(id, "Exception", "The power supply has failed."))
	default:
		s.tasks[id] = -1
		w.WriteHeader(http.StatusNoContent)
	}
}
